// Happens-before between the operations of streams, whatever the timing of a run.
//
// Every stream counts the operations that were put on it. An operation's clock says, for each
// stream, how many of that stream's operations are certain to be over when it starts:
//
//     stream 0:  write A            clock [1, 0]
//     stream 0:  record event e     e carries [1, 0]
//     stream 1:  wait for e         stream 1 has [1, 0]
//     stream 1:  read A             clock [1, 1]: operation 1 of stream 0 is over
//
// Without the wait the read's clock is [0, 1], and the two are concurrent. That is a race, even
// where this run happened to execute them in the right order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtc::emulator {

class VectorClock {
public:
  uint64_t operator[](size_t stream) const { return stream < times.size() ? times[stream] : 0; }

  uint64_t advance(size_t stream) {
    grow(stream + 1);
    return ++times[stream];
  }

  void join(const VectorClock &other) {
    grow(other.times.size());
    for (size_t i = 0; i < other.times.size(); ++i)
      times[i] = std::max(times[i], other.times[i]);
  }

private:
  void grow(size_t size) {
    if (times.size() < size)
      times.resize(size, 0);
  }

  std::vector<uint64_t> times;
};

/// One operation as the history of memory remembers it.
struct OperationStamp {
  std::string name;
  size_t stream = 0;
  uint64_t time = 0; // its number on its stream; 0 is before everything
  VectorClock clock;

  bool isBefore(const OperationStamp &later) const { return later.clock[stream] >= time; }
};

using StampRef = std::shared_ptr<const OperationStamp>;

} // namespace dtc::emulator
