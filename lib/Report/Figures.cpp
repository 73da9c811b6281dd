#include "Figures.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc::report {

void openDrawing(Html &html, const std::string &id, double width, double height,
                 const std::string &title, const std::string &description) {
  html.open("svg", {{"viewBox", "0 0 " + number(width) + " " + number(height)},
                    {"width", number(width)},
                    {"height", number(height)},
                    {"role", "img"},
                    {"aria-labelledby", id + "-title " + id + "-text"}});
  html.element("title", {{"id", id + "-title"}}, title);
  html.element("desc", {{"id", id + "-text"}}, description);
}

void legend(Html &html, const std::vector<Swatch> &swatches) {
  html.open("ul", {{"class", "legend"}});
  for (const Swatch &swatch : swatches) {
    html.open("li");
    html.open("svg", {{"width", "14"}, {"height", "14"}, {"aria-hidden", "true"}});
    html.leaf("rect", {{"width", "14"}, {"height", "14"}, {"rx", "2"}, {"class", swatch.classes}});
    html.close().text(swatch.label).close();
  }
  html.close();
}

void stackedBar(Html &html, const std::string &id, const std::string &title,
                const std::vector<Segment> &segments, double whole) {
  constexpr double kWidth = 1000, kHeight = 34;
  std::string description;
  for (const Segment &segment : segments)
    description += (description.empty() ? "" : ", ") + segment.label + " " +
                   formatPercent(whole > 0 ? segment.value / whole : 0);
  html.open("svg", {{"viewBox", "0 0 1000 34"},
                    {"preserveAspectRatio", "none"},
                    {"class", "bar"},
                    {"role", "img"},
                    {"aria-labelledby", id + "-title " + id + "-text"}});
  html.element("title", {{"id", id + "-title"}}, title);
  html.element("desc", {{"id", id + "-text"}}, description);
  html.leaf("rect", {{"width", number(kWidth)}, {"height", number(kHeight)}, {"class", "empty"}});
  double x = 0;
  for (const Segment &segment : segments) {
    double width = whole > 0 ? kWidth * std::clamp(segment.value / whole, 0.0, 1.0) : 0;
    if (width > 0.05)
      html.leaf("rect", {{"x", number(x)},
                         {"width", number(width)},
                         {"height", number(kHeight)},
                         {"class", segment.classes}});
    x += width;
  }
  html.close();
}

void smallBar(Html &html, double value, double whole, const std::string &classes) {
  double width = whole > 0 ? 100 * std::clamp(value / whole, 0.0, 1.0) : 0;
  html.open("svg", {{"viewBox", "0 0 100 10"},
                    {"preserveAspectRatio", "none"},
                    {"class", "small"},
                    {"aria-hidden", "true"}});
  html.leaf("rect", {{"width", "100"}, {"height", "10"}, {"class", "empty"}});
  html.leaf("rect", {{"width", number(width)}, {"height", "10"}, {"class", classes}});
  html.close();
}

std::vector<double> ticks(double top, int most, bool binary) {
  if (!(top > 0) || !std::isfinite(top))
    return {0};
  double step = binary ? std::exp2(std::floor(std::log2(top / most)))
                       : std::pow(10, std::floor(std::log10(top / most)));
  for (int turn = 0; top / step > most; ++turn)
    step *= binary || turn % 3 != 1 ? 2 : 2.5;
  std::vector<double> result;
  for (int i = 0; i * step <= top * (1 + 1e-9); ++i)
    result.push_back(i * step);
  return result;
}

/// "2 s", "2.5 ms".
static std::string tickText(double seconds) {
  if (seconds <= 0)
    return "0";
  bool isSmall = seconds < 1e-3;
  char text[64];
  std::snprintf(text, sizeof(text), "%.4g %s",
                seconds * (isSmall       ? 1e6
                           : seconds < 1 ? 1e3
                                         : 1),
                isSmall       ? "us"
                : seconds < 1 ? "ms"
                              : "s");
  return text;
}

void timeAxis(Html &html, const Scale &scale, double top, double bottom, int most) {
  double length = scale.to - scale.from;
  std::vector<double> marks = ticks(length, most, false);
  double step = marks.size() > 1 ? marks[1] : length;
  for (double at = std::ceil(scale.from / step - 1e-9) * step; at <= scale.to + 1e-9 * step;
       at += step) {
    double x = scale(at);
    html.leaf("line", {{"x1", number(x)},
                       {"x2", number(x)},
                       {"y1", number(top)},
                       {"y2", number(bottom)},
                       {"class", "grid"}});
    html.element("text", {{"x", number(x)}, {"y", number(bottom + 13)}, {"class", "mid"}},
                 tickText(at));
  }
}

} // namespace dtc::report
