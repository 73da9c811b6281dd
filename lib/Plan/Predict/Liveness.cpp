// What is in memory while an execution is carried out.
#include "Liveness.h"

#include <algorithm>

namespace dtc::plan {

Liveness::Liveness(const RankExecution &execution, std::vector<bool> given)
    : execution(execution), lastUse(execution.buffers.size(), 0),
      madeAt(execution.buffers.size(), kNever), elsewhere(std::move(given)) {
  elsewhere.resize(execution.buffers.size(), false);
  constexpr size_t unmade = ~size_t{0};
  std::vector<size_t> made(execution.buffers.size(), unmade);
  for (size_t i = 0; i < execution.steps.size(); ++i) {
    const ExecutionStep &step = execution.steps[i];
    for (int buffer : step.reads)
      if (!step.addsTerms || execution.buffers[buffer].until < 0)
        lastUse[buffer] = i;
    for (int buffer : step.writes) {
      lastUse[buffer] = i;
      made[buffer] = std::min(made[buffer], i);
    }
  }
  for (size_t buffer = 0; buffer < lastUse.size(); ++buffer)
    if (int until = execution.buffers[buffer].until; until >= 0 && made[until] != unmade) {
      lastUse[buffer] = std::max(lastUse[buffer], made[until]);
      waiting.emplace_back(until, static_cast<int>(buffer));
    }
  std::ranges::sort(waiting);
}

int64_t Liveness::advance() {
  const ExecutionStep &step = execution.steps[at];
  for (int written : step.writes)
    write(step, written);
  int64_t most = now;
  if (!step.operandReads.empty())
    most += execution.workspaceBytes(step.op, placesOf(step));
  for (const std::vector<int> *list : {&step.reads, &step.writes})
    for (int buffer : *list)
      if (dies(buffer))
        release(buffer);
  for (int buffer : step.writes)
    for (auto [until, term] : std::ranges::equal_range(waiting, buffer, {}, &Waiting::first))
      if (dies(term))
        release(term);
  ++at;
  return most;
}

/// One that is written over is there until the step before.
void Liveness::release(int buffer, bool isWrittenOver) {
  if (isLive(buffer)) {
    now -= execution.buffers[buffer].bytes;
    lives.push_back({buffer, madeAt[buffer], isWrittenOver ? at : at + 1});
  }
  madeAt[buffer] = kNever;
}

void Liveness::write(const ExecutionStep &step, int written) {
  const std::vector<Buffer> &buffers = execution.buffers;
  auto fits = [&](int read) { return dies(read) && buffers[read].bytes == buffers[written].bytes; };
  // What a slot has kept is written over first (SpentSlots.cpp), but not by what has one itself.
  auto reused = std::ranges::find_if(
      step.reads, [&](int read) { return fits(read) && elsewhere[read] && !elsewhere[written]; });
  if (reused == step.reads.end())
    reused = std::ranges::find_if(step.reads, fits);
  if (step.inPlace && reused != step.reads.end()) {
    elsewhere[written] = elsewhere[written] || elsewhere[*reused];
    elsewhere[*reused] = false; // one place is written over once
    over.emplace_back(*reused, written);
    release(*reused, true);
  }
  if (!isLive(written) && !elsewhere[written] && !buffers[written].persistent) {
    madeAt[written] = at;
    now += buffers[written].bytes;
  }
}

/// What has a place of its own all step is no room for what an op needs inside.
OpPlaces Liveness::placesOf(const ExecutionStep &step) const {
  OpPlaces result;
  for (int index : step.operandReads) {
    int buffer = index < 0 ? -1 : step.reads[index];
    bool isShared = std::count(step.reads.begin(), step.reads.end(), buffer) > 1;
    result.spent.push_back(buffer >= 0 && !isShared && isLive(buffer) && dies(buffer));
  }
  for (int written : step.writes) // results come first
    result.apart.push_back(!isLive(written));
  return result;
}

LiveBytes liveBytes(const RankExecution &execution) {
  Liveness liveness(execution);
  LiveBytes result;
  for (size_t i = 0; i < execution.steps.size(); ++i) {
    result.during.push_back(liveness.advance());
    result.after.push_back(liveness.left());
  }
  return result;
}

int64_t peakBytes(const RankExecution &execution) {
  std::vector<int64_t> live = liveBytes(execution).during;
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

} // namespace dtc::plan
