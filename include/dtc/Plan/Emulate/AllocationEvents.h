// What the calls of a pipeline stage allocate and free, in order.
#pragma once

#include <cstdint>
#include <vector>

namespace dtc::plan {

struct AllocationEvent {
  enum class Action : uint8_t {
    Allocate,
    Free,
    /// As Free, in a forward pass: a variable of the program may hold it longer.
    Release,
    /// As Free, but it is the gradient of a parameter and may stay.
    Gradient
  };
  Action action = Action::Allocate;
  int buffer = 0;
  bool operator==(const AllocationEvent &) const = default;
};

/// Of one stage and microbatch.
struct StageAllocations {
  std::vector<int64_t> bytes; ///< by buffer
  /// A full backward call is `inputGrad` and then `weightGrad`.
  std::vector<AllocationEvent> forward, inputGrad, weightGrad;
};

} // namespace dtc::plan
