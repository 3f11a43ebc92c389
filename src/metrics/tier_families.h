#pragma once
#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "metrics/tier_counters.h"

namespace pagoda::metrics {

/// Appends what tiers did, one label `tier` each, besides `labels`. No family without a tier.
void add_tier_families(const std::vector<std::pair<std::string, const TierCounters*>>& tiers,
                       const std::map<std::string, std::string>& labels,
                       std::vector<prometheus::MetricFamily>& families);

}  // namespace pagoda::metrics
