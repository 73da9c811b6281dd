// Whether strided parts of a value are the whole of it.
#pragma once

#include "dtc-rt/Program_generated.h"

#include <vector>

namespace dtc::replay {

/// A tensor that begins so many bytes behind the value.
struct Part {
  uint64_t offset = 0;
  const rt::fbs::TensorT *tensor = nullptr;
};

/// True if every byte of a value is in exactly one part. Each part takes the same range of all rows
/// of the value, as a slice along one dimension does; what isn't of that form makes up nothing.
bool makeUp(const std::vector<Part> &parts, uint64_t bytes);

} // namespace dtc::replay
