// Who last wrote and who has read each byte of a device, and whether these operations are ordered.
#pragma once

#include "Emulator/Device/VectorClock.h"

#include <map>
#include <mutex>

namespace dtc::emulator {

/// Bytes [begin, end) of the device's addresses.
struct Range {
  uint64_t begin, end;
};

/// The bytes that an operation has read and written, each list sorted and without overlaps; those
/// of pinned memory at the host's addresses.
struct Accesses {
  std::vector<Range> reads = {}, writes = {};
  std::vector<Range> pinnedReads = {}, pinnedWrites = {};
};

/// Adds bytes, as part of the last range where that ends before them.
void append(std::vector<Range> &ranges, Range range);
/// Sorts ranges, and joins those that meet. Says whether some lay over others.
bool sortAndJoin(std::vector<Range> &ranges);

class AccessHistory {
public:
  /// Of pinned memory. The host writes there as it likes, which nobody sees.
  static AccessHistory &ofPinned();
  /// Memory that was written before everything.
  void initialize(Range range);

  /// Enters a finished operation. Throws a Fault where it conflicts with an operation that isn't
  /// ordered with it, or where it reads bytes that nothing has written.
  void record(const StampRef &operation, const Accesses &accesses);

  /// Forgets an allocation's bytes; they count as never written.
  void forget(Range range);

private:
  struct State {
    uint64_t end;
    StampRef writer;
    std::vector<StampRef> readers; // since the last write, at most one of each stream

    bool same(const State &other) const {
      return writer == other.writer && readers == other.readers;
    }
  };
  using Map = std::map<uint64_t, State>;

  void split(uint64_t address);
  void merge(Range range);
  void read(const StampRef &operation, Range range, const std::vector<Range> &ownWrites);
  void write(const StampRef &operation, Range range);

  std::mutex mutex;
  Map states; // by first byte; bytes that no state covers were never written
};

} // namespace dtc::emulator
