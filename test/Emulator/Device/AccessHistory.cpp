#include "Emulator/Device/AccessHistory.h"

#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

namespace {

std::string describe(const OperationStamp &operation) {
  return concat(operation.name, " (operation ", operation.time, " of stream ", operation.stream,
                ")");
}

[[noreturn]] void race(const OperationStamp &earlier, const char *did, const OperationStamp &later,
                       const char *does, uint64_t begin, uint64_t end) {
  throw Fault(cuda::CUDA_ERROR_LAUNCH_FAILED, "race between streams: ", describe(later), " ", does,
              " ", end - begin, " bytes at ", hex(begin), " that ", describe(earlier), " ", did,
              ", and no event orders the two");
}

bool isOrdered(const OperationStamp &a, const OperationStamp &b) {
  return a.isBefore(b) || b.isBefore(a);
}

bool covers(const std::vector<Range> &ranges, uint64_t begin, uint64_t end) {
  auto next =
      std::upper_bound(ranges.begin(), ranges.end(), begin,
                       [](uint64_t value, const Range &range) { return value < range.begin; });
  return next != ranges.begin() && std::prev(next)->end >= end;
}

} // namespace

void append(std::vector<Range> &ranges, Range range) {
  if (!ranges.empty() && ranges.back().end == range.begin)
    ranges.back().end = range.end;
  else
    ranges.push_back(range);
}

bool sortAndJoin(std::vector<Range> &ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> joined;
  bool overlap = false;
  for (const Range &range : ranges)
    if (joined.empty() || range.begin >= joined.back().end) {
      append(joined, range);
    } else {
      overlap = true;
      joined.back().end = std::max(joined.back().end, range.end);
    }
  ranges = std::move(joined);
  return overlap;
}

AccessHistory &AccessHistory::ofPinned() {
  static auto *history = new AccessHistory;
  return *history;
}

void AccessHistory::initialize(Range range) {
  record(std::make_shared<OperationStamp>(), Accesses{{}, {range}});
}

void AccessHistory::split(uint64_t address) {
  auto next = states.upper_bound(address);
  if (next == states.begin())
    return;
  auto at = std::prev(next);
  if (at->first == address || at->second.end <= address)
    return;
  State tail = at->second;
  at->second.end = address;
  states.emplace_hint(next, address, std::move(tail));
}

void AccessHistory::merge(Range range) {
  auto at = states.lower_bound(range.begin);
  if (at != states.begin())
    --at;
  while (at != states.end() && at->first < range.end) {
    auto next = std::next(at);
    if (next != states.end() && at->second.end == next->first && at->second.same(next->second)) {
      at->second.end = next->second.end;
      states.erase(next);
    } else {
      at = next;
    }
  }
}

void AccessHistory::read(const StampRef &operation, Range range,
                         const std::vector<Range> &ownWrites) {
  split(range.begin);
  split(range.end);
  uint64_t covered = range.begin;
  auto requireWritten = [&](uint64_t begin, uint64_t end) {
    if (begin < end && !covers(ownWrites, begin, end))
      throw Fault(cuda::CUDA_ERROR_LAUNCH_FAILED, "uninitialized read: ", describe(*operation),
                  " reads ", end - begin, " bytes at ", hex(begin), " that nothing has written");
  };
  for (auto at = states.lower_bound(range.begin); at != states.end() && at->first < range.end;
       ++at) {
    requireWritten(covered, at->first);
    covered = at->second.end;
    State &state = at->second;
    if (!isOrdered(*state.writer, *operation))
      race(*state.writer, "writes", *operation, "reads", at->first, state.end);
    std::erase_if(state.readers,
                  [&](const StampRef &reader) { return reader->stream == operation->stream; });
    state.readers.push_back(operation);
  }
  requireWritten(covered, range.end);
}

void AccessHistory::write(const StampRef &operation, Range range) {
  split(range.begin);
  split(range.end);
  auto first = states.lower_bound(range.begin);
  auto at = first;
  for (; at != states.end() && at->first < range.end; ++at) {
    const State &state = at->second;
    if (!isOrdered(*state.writer, *operation))
      race(*state.writer, "writes", *operation, "writes", at->first, state.end);
    for (const StampRef &reader : state.readers)
      if (!isOrdered(*reader, *operation))
        race(*reader, "reads", *operation, "writes", at->first, state.end);
  }
  states.erase(first, at);
  states.emplace(range.begin, State{range.end, operation, {}});
}

void AccessHistory::record(const StampRef &operation, const Accesses &accesses) {
  if (accesses.reads.empty() && accesses.writes.empty())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  for (const Range &range : accesses.reads) {
    read(operation, range, accesses.writes);
    merge(range);
  }
  for (const Range &range : accesses.writes)
    write(operation, range);
}

void AccessHistory::forget(Range range) {
  std::lock_guard<std::mutex> lock(mutex);
  split(range.begin);
  split(range.end);
  states.erase(states.lower_bound(range.begin), states.lower_bound(range.end));
}

} // namespace dtc::emulator
