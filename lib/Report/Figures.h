// Parts that the page's drawings share.
#pragma once

#include "Html.h"

#include <vector>

namespace dtc::report {

/// What a colour of a figure stands for.
struct Swatch {
  std::string classes; ///< of the style sheet: "seg k1"
  std::string label;
};

/// Opens an `<svg>` that a screen reader reads as one picture with a title and a
/// description; `id` is unique in the page. To be closed.
void openDrawing(Html &html, const std::string &id, double width, double height,
                 const std::string &title, const std::string &description);

void legend(Html &html, const std::vector<Swatch> &swatches);

/// A bar of segments that fill `whole`; what is missing stays empty.
struct Segment {
  std::string classes, label;
  double value = 0;
};
void stackedBar(Html &html, const std::string &id, const std::string &title,
                const std::vector<Segment> &segments, double whole);

/// A small bar in a table cell.
void smallBar(Html &html, double value, double whole, const std::string &classes);

/// Round values from 0 up to `top`, at most `most` and at least two. They are multiples of 1, 2 or
/// 5 times a power of ten, or powers of two for bytes.
std::vector<double> ticks(double top, int most, bool binary);

/// Where an axis goes through: pixels of values.
struct Scale {
  double from = 0, to = 1;   ///< values
  double begin = 0, end = 1; ///< pixels
  double operator()(double value) const {
    return to > from ? begin + (value - from) / (to - from) * (end - begin) : begin;
  }
};

void timeAxis(Html &html, const Scale &scale, double top, double bottom, int most = 8);

} // namespace dtc::report
