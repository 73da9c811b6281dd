#include "dtc/Plan/Predict/Recomputation.h"

#include "PlacedPrograms.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace dtc::plan {

namespace {

/// One block's steps again, with buffers of their own.
class Replay {
public:
  Replay(RankExecution &execution, const Problem &problem, const Block &block, Recompute kind)
      : execution(execution), block(block), kind(kind) {
    if (kind == Recompute::Selective)
      for (const ExecutionStep &step : execution.steps)
        if (step.saved >= 0 && problem.ops[step.op].kind == OpKind::Attention)
          selected.insert(step.op);
    for (const ExecutionStep &step : execution.steps)
      if (!step.backward() && contains(step))
        add(step);
  }

  bool contains(const ExecutionStep &step) const {
    return step.position >= block.first && step.position <= block.last;
  }
  bool empty() const { return steps.empty(); }
  /// Whether a backward step reads what is computed again.
  bool isReadBy(const ExecutionStep &step) const {
    return std::any_of(step.reads.begin(), step.reads.end(),
                       [&](int buffer) { return copies.count(buffer) > 0; });
  }
  size_t size() const { return steps.size(); }
  /// To be called once.
  std::vector<ExecutionStep> take() { return std::move(steps); }
  /// Leaves out the steps that make nothing that these backward steps read.
  void keepRead(const std::vector<const ExecutionStep *> &backward);
  /// Lets a backward step read what was made again.
  void redirect(ExecutionStep &step) const { redirect(step.reads); }

private:
  void redirect(std::vector<int> &buffers) const {
    for (int &buffer : buffers)
      if (auto it = copies.find(buffer); it != copies.end())
        buffer = it->second;
  }
  int copyOf(int buffer) {
    auto [it, isNew] = copies.try_emplace(buffer, static_cast<int>(execution.buffers.size()));
    if (isNew)
      execution.buffers.push_back(
          {.bytes = execution.buffers[buffer].bytes, .persistent = false, .isCopy = true});
    return it->second;
  }
  void add(ExecutionStep step);
  /// Whether attention that keeps something inside runs in this step, or takes what it brings.
  bool isSelected(const ExecutionStep &step) const {
    return step.op >= 0 && selected.count(step.op) > 0;
  }

  RankExecution &execution;
  const Block &block;
  Recompute kind;
  std::set<OpId> selected; ///< attention that keeps something inside
  std::map<int, int> copies;
  std::vector<ExecutionStep> steps;
};

} // namespace

void Replay::add(ExecutionStep step) {
  if (kind == Recompute::Selective && !isSelected(step))
    return;
  redirect(step.reads);
  if (kind == Recompute::Selective && !step.collective) {
    step.saved = copyOf(step.saved);
    step.writes = {step.saved};
  } else {
    // Where the whole is made again, its parts needn't be copied.
    std::erase_if(step.writes, [&](int buffer) {
      return execution.buffers[buffer].isPart && execution.buffers[step.reads[0]].isCopy &&
             copies.try_emplace(buffer, step.reads[0]).second;
    });
    for (int &buffer : step.writes)
      buffer = copyOf(buffer);
    if (step.saved >= 0)
      step.saved = copyOf(step.saved);
  }
  step.pass = StepPass::Recompute;
  steps.push_back(std::move(step));
}

void Replay::keepRead(const std::vector<const ExecutionStep *> &backward) {
  std::set<int> read;
  for (const ExecutionStep *step : backward)
    for (int buffer : step->reads)
      if (auto it = copies.find(buffer); it != copies.end())
        read.insert(it->second);
  auto isRead = [&](int buffer) { return read.count(buffer) > 0; };
  std::vector<ExecutionStep> kept;
  std::set<OpId> keptOps;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    // Communication inside an op comes before it and writes nothing of its own.
    bool isInside = step->writes.empty() && step->reads.empty() && keptOps.count(step->op);
    const std::vector<int> &made = step->writes.empty() ? step->reads : step->writes;
    if (!isInside && std::none_of(made.begin(), made.end(), isRead))
      continue;
    read.insert(step->reads.begin(), step->reads.end());
    keptOps.insert(step->op);
    kept.push_back(std::move(*step));
  }
  steps.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

void addRecomputation(RankExecution &execution, const Problem &problem,
                      const std::vector<Block> &blocks, const std::vector<BlockRecompute> &kinds,
                      const Software &software) {
  std::vector<Replay> replays;
  std::vector<int> replayOf(problem.ops.size(), -1);
  for (const BlockRecompute &entry : kinds) {
    if (entry.kind == Recompute::None)
      continue;
    const Block &block = blocks[entry.block];
    Replay replay(execution, problem, block, entry.kind);
    if (replay.empty())
      continue;
    for (OpId op = block.first; op <= block.last; ++op)
      replayOf[op] = static_cast<int>(replays.size());
    replays.push_back(std::move(replay));
  }
  if (replays.empty())
    return;
  auto replayFor = [&](const ExecutionStep &step) {
    return step.backward() && step.op >= 0 ? replayOf[step.position] : -1;
  };
  // Others compute a block again as a whole, whatever its backward pass reads.
  if (software.placesMemory()) {
    std::vector<std::vector<const ExecutionStep *>> readers(replays.size());
    for (const ExecutionStep &step : execution.steps)
      if (int replay = replayFor(step); replay >= 0)
        readers[replay].push_back(&step);
    for (size_t i = 0; i < replays.size(); ++i)
      replays[i].keepRead(readers[i]);
  }
  // dtc computes a block again once something of it is read, others before its backward pass.
  const bool isPlaced = hasPlaces(software);
  std::vector<bool> done(replays.size(), false);
  size_t count = execution.steps.size();
  for (const Replay &replay : replays)
    count += replay.size();
  std::vector<ExecutionStep> steps;
  steps.reserve(count);
  for (ExecutionStep &step : execution.steps) {
    int replay = replayFor(step);
    if (replay >= 0 && (!isPlaced || done[replay] || replays[replay].isReadBy(step))) {
      if (!done[replay])
        std::ranges::move(replays[replay].take(), std::back_inserter(steps));
      done[replay] = true;
      replays[replay].redirect(step);
    }
    steps.push_back(std::move(step));
  }
  execution.steps = std::move(steps);
}

} // namespace dtc::plan
