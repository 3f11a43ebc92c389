#include "apps/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace pagoda::apps {
namespace {

constexpr double kPanelWidth = 340, kPanelHeight = 264;  // of the plotting area with its labels
constexpr double kLeft = 58, kRight = 14, kTop = 64, kBottom = 66, kHeader = 58, kLegend = 30;
constexpr std::string_view kBlue = "#1f6fb4", kGrey = "#8a8a8a", kInk = "#222222", kFaint = "#e4e4e4";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// 1, 2 or 5 times a power of ten, so that about five steps reach `top`.
double nice_step(double top) {
  const double raw = top / 5, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

std::string label(double x, double y, std::string_view anchor, int size, std::string_view colour, std::string_view what,
                  std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\"{}>{}</text>\n", x,
                     y, anchor, size, colour, more, escaped(what));
}

std::string stroke(double x1, double y1, double x2, double y2, std::string_view colour, std::string_view more = "") {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"{}/>\n", x1, y1, x2,
                     y2, colour, more);
}

/// One panel whose upper left corner is (x0, y0).
class PanelDrawing {
 public:
  PanelDrawing(const Panel& panel, double x0, double y0) : panel_(panel), x0_(x0 + kLeft), y0_(y0) {
    double top = 0;
    for (const std::vector<double>* values : {&panel.measured, &panel.limit})
      for (const double v : *values) top = std::max(top, v);
    step_ = nice_step(std::max(top, 1e-9));
    top_ = std::max(1.0, std::ceil(top / step_)) * step_;
  }

  std::string draw(std::string_view unit) const {
    std::string out = label(x0_, y0_ - 14, "start", 14, kInk, panel_.title, " font-weight=\"bold\"");
    for (double v = 0; v <= top_ + step_ / 2; v += step_) {
      out += stroke(x0_, y(v), x0_ + width(), y(v), v == 0 ? kInk : kFaint);
      out += label(x0_ - 6, y(v) + 4, "end", 11, kInk, fmt::format("{:g}", v));
    }
    out += label(x0_ - 44, y0_ + height() / 2, "middle", 11, kInk, unit,
                 fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x0_ - 44, y0_ + height() / 2));
    for (size_t i = 0; i < panel_.x.size(); ++i) {
      out += label(x(i), y0_ + height() + 17, "middle", 11, kInk, panel_.x[i]);
      if (i < panel_.percent.size())
        out += label(x(i), y0_ + height() + 32, "middle", 11, kGrey, fmt::format("{:.0f} %", panel_.percent[i]));
    }
    out += label(x0_ + width() / 2, y0_ + height() + 51, "middle", 11, kInk, panel_.x_label);
    out += curve(panel_.limit, kGrey, " stroke-dasharray=\"6 4\" class=\"limit\"");
    out += curve(panel_.measured, kBlue, " class=\"measured\"");
    for (size_t i = 0; i < panel_.measured.size(); ++i) out += point(i);
    return out;
  }

 private:
  double width() const { return kPanelWidth - kLeft - kRight; }
  double height() const { return kPanelHeight - kBottom; }
  double x(size_t i) const {
    return x0_ + width() * (static_cast<double>(i) + 0.5) / static_cast<double>(std::max<size_t>(1, panel_.x.size()));
  }
  double y(double value) const { return y0_ + height() * (1 - value / top_); }

  std::string curve(const std::vector<double>& values, std::string_view colour, std::string_view more) const {
    std::string points;
    for (size_t i = 0; i < values.size(); ++i) points += fmt::format("{:.1f},{:.1f} ", x(i), y(values[i]));
    return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", points, colour,
                       more);
  }

  /// A dot and its value under it, or over it where the axis is near.
  std::string point(size_t i) const {
    const double value = panel_.measured[i], at = y(value);
    const double beside = at + 24 < y0_ + height() ? at + 17 : at - 9;
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x(i), at, kBlue) +
           label(x(i), beside, "middle", 11, kBlue,
                 value < 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value),
                 " stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\"");
  }

  const Panel& panel_;
  double x0_, y0_;
  double step_, top_;
};

}  // namespace

std::string svg_plot(const std::string& title, const std::string& subtitle, const std::string& unit,
                     const std::vector<Panel>& panels, const std::string& limit) {
  const double width = kPanelWidth * static_cast<double>(std::max<size_t>(1, panels.size())) + 20;
  const double height = kHeader + kTop / 2 + kPanelHeight + kLegend;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  out += label(20, 26, "start", 17, kInk, title, " font-weight=\"bold\"");
  out += label(20, 45, "start", 12, kGrey, subtitle);
  double x = 10;
  for (const Panel& panel : panels) {
    out += PanelDrawing(panel, x, kHeader + kTop / 2).draw(unit);
    x += kPanelWidth;
  }
  const double y = height - 12;
  out += stroke(kLeft, y - 4, kLeft + 28, y - 4, kBlue, " stroke-width=\"2\"");
  out += label(kLeft + 34, y, "start", 12, kInk, "measured");
  out += stroke(kLeft + 120, y - 4, kLeft + 148, y - 4, kGrey, " stroke-width=\"2\" stroke-dasharray=\"6 4\"");
  out += label(kLeft + 154, y, "start", 12, kInk, limit);
  return out + "</svg>\n";
}

}  // namespace pagoda::apps
