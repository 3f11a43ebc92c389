#pragma once
#include <string>
#include <vector>

namespace pagoda::apps {

/// One diagram: a measured line and the limit above it over the same x values (shown at equal distances, each with its
/// own label). y starts at 0.
struct Panel {
  std::string title;
  std::string x_label;
  std::vector<std::string> x;                    // labels, left to right
  std::vector<double> measured, limit, percent;  // as many as x; percent is printed under x, if there is one
};

/// A drawing of panels side by side, each with axes and labels, as a whole SVG document. `unit` names the y axes; texts
/// may hold any characters; `limit` says what the dashed line is.
std::string svg_plot(const std::string& title, const std::string& subtitle, const std::string& unit,
                     const std::vector<Panel>& panels,
                     const std::string& limit = "the machine's limit, and the percent of it that is reached");

}  // namespace pagoda::apps
