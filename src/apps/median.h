#pragma once
#include <algorithm>
#include <vector>

namespace pagoda::apps {

/// The middle value, of an even number the mean of the middle two. At least one value.
inline double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace pagoda::apps
