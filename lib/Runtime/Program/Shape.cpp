#include "dtc-rt/Program/Shape.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt {

int64_t product(std::span<const int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

std::string shapeText(std::span<const int64_t> shape) {
  if (shape.empty())
    return "scalar";
  constexpr size_t kMostShown = 12; // more are no shape, but damage
  std::string text;
  for (int64_t size : shape.first(std::min(shape.size(), kMostShown)))
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return shape.size() > kMostShown ? text + "... (" + std::to_string(shape.size()) + " dimensions)"
                                   : text;
}

void mergeFullDims(Dims &shape, Box &a, Box &b) {
  if (shape.empty()) {
    shape = {1};
    a = b = {{1}, {0}};
    return;
  }
  while (shape.size() > 1 && shape.back() == a.whole.back() && shape.back() == b.whole.back()) {
    int64_t size = shape.back();
    shape.pop_back();
    shape.back() *= size;
    for (Box *box : {&a, &b}) {
      box->whole.pop_back();
      box->offset.pop_back();
      box->whole.back() *= size;
      box->offset.back() *= size;
    }
  }
}

void copyBox(const Dims &shape, char *target, const Box &targetBox, const char *source,
             const Box &sourceBox, int64_t elementBytes) {
  forEachRun(shape, targetBox, sourceBox, [&](int64_t to, int64_t from, int64_t count) {
    std::memmove(target + to * elementBytes, source + from * elementBytes,
                 static_cast<size_t>(count * elementBytes));
  });
}

} // namespace dtc::rt
