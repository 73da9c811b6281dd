#include "Memory.h"

#include <algorithm>

namespace dtc::replay {

/// The first segment that ends behind the address.
Memory::Segments::iterator Memory::firstBehind(uint64_t address) {
  auto next = segments.upper_bound(address);
  if (next != segments.begin())
    if (auto before = std::prev(next); before->second.end > address)
      return before;
  return next;
}

std::optional<Fault> Memory::read(uint64_t begin, uint64_t end, Content content, Time now,
                                  const Clock &clock) {
  for (auto it = firstBehind(begin); begin < end; ++it) {
    if (it == segments.end() || it->first > begin)
      return Fault{Fault::OtherContent, 0, begin};
    Segment &segment = it->second;
    if (segment.content != content)
      return Fault{Fault::OtherContent, segment.content, begin};
    if (!clock.includes(segment.writer))
      return Fault{Fault::UnorderedWrite, segment.content, begin};
    segment.reader = now;
    segment.reads[now.queue] = now.tick;
    begin = segment.end;
  }
  return std::nullopt;
}

std::optional<Fault> Memory::holds(uint64_t begin, uint64_t end, Content content) const {
  auto it = segments.upper_bound(begin);
  if (it != segments.begin() && std::prev(it)->second.end > begin)
    --it;
  for (; begin < end; ++it) {
    if (it == segments.end() || it->first > begin)
      return Fault{Fault::OtherContent, 0, begin};
    if (it->second.content != content)
      return Fault{Fault::OtherContent, it->second.content, begin};
    begin = it->second.end;
  }
  return std::nullopt;
}

/// Why nothing may be written over a segment, if so.
std::optional<Fault> Memory::replace(const Segments::value_type &entry, uint64_t begin, Time now,
                                     const Clock &clock, uint64_t takesOver) const {
  const Segment &segment = entry.second;
  uint64_t address = std::max(begin, entry.first);
  if (segment.writer == now)
    return Fault{Fault::OwnResult, segment.content, address};
  if (!clock.includes(segment.writer))
    return Fault{Fault::UnorderedWrite, segment.content, address};
  if (segment.reader == now &&
      !(takesOver && entry.first == begin && segment.end == begin + takesOver))
    return Fault{Fault::OwnOperand, segment.content, address};
  for (uint32_t queue = 0; queue < kMostQueues; ++queue)
    if (!clock.includes({queue, segment.reads[queue]}))
      return Fault{Fault::UnorderedRead, segment.content, address};
  return std::nullopt;
}

/// Takes [begin, end) out of a segment; returns the one behind it.
Memory::Segments::iterator Memory::cut(Segments::iterator it, uint64_t begin, uint64_t end) {
  Segment old = it->second;
  auto next = std::next(it);
  if (old.end > end)
    next = segments.emplace_hint(next, end, old);
  if (it->first < begin)
    it->second.end = begin;
  else
    segments.erase(it);
  return next;
}

std::optional<Fault> Memory::write(uint64_t begin, uint64_t end, Content content, Time now,
                                   const Clock &clock, uint64_t takesOver) {
  if (begin == end)
    return std::nullopt;
  auto it = firstBehind(begin);
  if (it != segments.end() && it->first == begin && it->second.end == end) {
    if (auto fault = replace(*it, begin, now, clock, takesOver))
      return fault;
    it->second = {end, content, now, {}, {}};
    return std::nullopt;
  }
  while (it != segments.end() && it->first < end) {
    if (auto fault = replace(*it, begin, now, clock, takesOver))
      return fault;
    const bool isTaken = it->second.reader == now;
    it = cut(it, begin, end);
    if (isTaken && begin + takesOver > end) // the rest of the operand
      it->second = {begin + takesOver, 0, now, {}, {}};
  }
  segments.emplace_hint(it, begin, Segment{end, content, now, {}, {}});
  return std::nullopt;
}

} // namespace dtc::replay
