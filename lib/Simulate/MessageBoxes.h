// How many messages of each kind a rank has at a time: their places, where memory is placed.
#pragma once

#include "dtc/Simulate/Simulate.h"

#include <algorithm>
#include <array>

namespace dtc::simulate {

/// A message lies in an outbox of the chunk that makes it until it is sent, and in an inbox of
/// the chunk that needs it until that call is over. Between chunks of one rank it has one place.
class MessageBoxes {
public:
  explicit MessageBoxes(const schedule::Schedule &schedule)
      : schedule(schedule), boxes(schedule.shape.stages()) {}

  enum class Box : uint8_t { ForwardIn, ForwardOut, BackwardIn, BackwardOut };
  static Box inbox(bool forward) { return forward ? Box::ForwardIn : Box::BackwardIn; }
  static Box outbox(bool forward) { return forward ? Box::ForwardOut : Box::BackwardOut; }

  void add(int64_t stage, Box box) {
    Count &count = boxes[stage][int(box)];
    count.most = std::max(count.most, ++count.now);
  }
  void remove(int64_t stage, Box box) { --boxes[stage][int(box)].now; }

  /// Of all boxes of a rank.
  double bytes(const Costs &costs, int64_t rank) const {
    double result = 0;
    for (int64_t chunk = 0; chunk < schedule.shape.chunks; ++chunk) {
      int64_t stage = schedule.stage(rank, chunk);
      auto most = [&](Box box) { return double(boxes[stage][int(box)].most); };
      if (stage > 0)
        result += most(Box::ForwardIn) * costs.boundaries[stage - 1].forwardBytes +
                  most(Box::BackwardOut) * costs.boundaries[stage - 1].backwardBytes;
      if (stage + 1 < schedule.shape.stages())
        result += most(Box::ForwardOut) * costs.boundaries[stage].forwardBytes +
                  most(Box::BackwardIn) * costs.boundaries[stage].backwardBytes;
    }
    return result;
  }

private:
  struct Count {
    int32_t now = 0, most = 0;
  };
  const schedule::Schedule &schedule;
  std::vector<std::array<Count, 4>> boxes; ///< by stage
};

} // namespace dtc::simulate
