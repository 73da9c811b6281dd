// What lies in the memory of one rank, range by range.
#pragma once

#include <array>
#include <cstdint>
#include <memory_resource>
#include <optional>

namespace dtc::replay {

/// A value of a call, or what the host wrote; 0: nothing is known to lie there.
using Content = uint64_t;

/// More queues than a program may have.
inline constexpr size_t kMostQueues = 16;

/// An instruction as its queue sees it: its `tick`-th. Tick 0 is the host's, before all of
/// them: {0, 0} is its writing before step 1, {1, 0} that before step 2.
struct Time {
  uint32_t queue = 0, tick = 0;
  bool operator==(const Time &) const = default;
};

/// By queue, the tick of the last instruction that is known to be complete.
struct Clock {
  std::array<uint32_t, kMostQueues> ticks{};
  bool includes(Time time) const { return time.tick <= ticks[time.queue]; }
  void join(const Clock &other) {
    for (size_t i = 0; i < kMostQueues; ++i)
      ticks[i] = ticks[i] < other.ticks[i] ? other.ticks[i] : ticks[i];
  }
};

/// Why an access is wrong, and the address where it is.
struct Fault {
  enum Cause : uint8_t {
    OtherContent,   ///< `found` lies there
    UnorderedWrite, ///< it doesn't happen after the write of `found`
    UnorderedRead,  ///< the write doesn't happen after a read of `found`
    OwnOperand,     ///< the instruction writes over what it reads itself
    OwnResult       ///< the instruction writes the same place twice
  };
  Cause cause = OtherContent;
  Content found = 0;
  uint64_t address = 0;
};

/// The memory as disjoint segments, each written at once.
class Memory {
public:
  /// [begin, end) must hold `content`, written before `clock`.
  std::optional<Fault> read(uint64_t begin, uint64_t end, Content content, Time now,
                            const Clock &clock);
  /// `takesOver`: it may replace an operand of the same instruction, which has so many bytes from
  /// `begin` on. Of these nothing is left.
  std::optional<Fault> write(uint64_t begin, uint64_t end, Content content, Time now,
                             const Clock &clock, uint64_t takesOver = 0);
  /// As `read`, at a time when all queues are empty.
  std::optional<Fault> holds(uint64_t begin, uint64_t end, Content content) const;

private:
  struct Segment {
    uint64_t end;
    Content content;
    Time writer;
    Time reader; ///< the last
    std::array<uint32_t, kMostQueues> reads; ///< by queue: tick of the last read
  };
  using Segments = std::pmr::map<uint64_t, Segment>;

  Segments::iterator firstBehind(uint64_t address);
  std::optional<Fault> replace(const Segments::value_type &segment, uint64_t begin, Time now,
                               const Clock &clock, uint64_t takesOver) const;
  Segments::iterator cut(Segments::iterator segment, uint64_t begin, uint64_t end);

  std::pmr::unsynchronized_pool_resource pool;
  Segments segments{&pool}; ///< by their begin
};

} // namespace dtc::replay
