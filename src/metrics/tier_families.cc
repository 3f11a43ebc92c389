#include "metrics/tier_families.h"

namespace pagoda::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::map<std::string, std::string>;

struct Fact {
  const char* name;
  const char* help;
  MetricType type;
  int64_t (*read)(const TierCounters&);
};

constexpr Fact kFacts[] = {
    {"pagoda:kv_tier_blocks_loaded_total", "KV blocks read back from a tier.", MetricType::Counter,
     [](const TierCounters& c) { return c.blocks_loaded.load(); }},
    {"pagoda:kv_tier_bytes_loaded_total", "Their bytes.", MetricType::Counter,
     [](const TierCounters& c) { return c.bytes_loaded.load(); }},
    {"pagoda:kv_tier_blocks_saved_total", "KV blocks written to a tier.", MetricType::Counter,
     [](const TierCounters& c) { return c.blocks_saved.load(); }},
    {"pagoda:kv_tier_bytes_saved_total", "Their bytes.", MetricType::Counter,
     [](const TierCounters& c) { return c.bytes_saved.load(); }},
    {"pagoda:kv_tier_saves_dropped_total", "KV blocks not written: the queue was full, or writing pauses.",
     MetricType::Counter, [](const TierCounters& c) { return c.saves_dropped.load(); }},
    {"pagoda:kv_tier_saves_failed_total", "Writes that the system refused.", MetricType::Counter,
     [](const TierCounters& c) { return c.saves_failed.load(); }},
    {"pagoda:kv_tier_blocks_evicted_total", "KV blocks that made room for others.", MetricType::Counter,
     [](const TierCounters& c) { return c.blocks_evicted.load(); }},
    {"pagoda:kv_tier_loads_late_total", "Loads that were not waited for any longer.", MetricType::Counter,
     [](const TierCounters& c) { return c.loads_late.load(); }},
    {"pagoda:kv_tier_bytes", "Bytes a tier holds.", MetricType::Gauge,
     [](const TierCounters& c) { return c.bytes_held.load(); }},
    {"pagoda:kv_tier_up", "1 if the last write to a tier succeeded, 0 while it is served without.", MetricType::Gauge,
     [](const TierCounters& c) { return int64_t{c.works.load()}; }},
};

ClientMetric sample(const Labels& labels, MetricType type, int64_t value) {
  ClientMetric metric;
  for (const auto& [name, text] : labels) metric.label.push_back({name, text});
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = static_cast<double>(value);
  return metric;
}

}  // namespace

void add_tier_families(const std::vector<std::pair<std::string, const TierCounters*>>& tiers, const Labels& labels,
                       std::vector<MetricFamily>& families) {
  if (tiers.empty()) return;
  const auto with = [&labels](const std::string& name, const std::string& value, Labels more = {}) {
    more.insert(labels.begin(), labels.end());
    more[name] = value;
    return more;
  };
  for (const Fact& fact : kFacts) {
    MetricFamily& family = families.emplace_back(MetricFamily{fact.name, fact.help, fact.type, {}});
    for (const auto& [tier, counters] : tiers)
      family.metric.push_back(sample(with("tier", tier), fact.type, fact.read(*counters)));
  }
  MetricFamily& ends = families.emplace_back(
      MetricFamily{"pagoda:kv_tier_loads_total", "Loads by why no further block came.", MetricType::Counter, {}});
  for (const auto& [tier, counters] : tiers)
    for (size_t end = 0; end < TierCounters::kEnds.size(); ++end)
      ends.metric.push_back(sample(with("end", TierCounters::kEnds.at(end), with("tier", tier)), ends.type,
                                   counters->loads_ended.at(end).load()));
}

}  // namespace pagoda::metrics
