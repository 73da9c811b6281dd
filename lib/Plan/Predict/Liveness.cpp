// What is in memory while an execution is carried out, and while each call of a stage is.
#include "dtc/Plan/Predict/StageCalls.h"

#include <algorithm>

namespace dtc::plan {

StageCalls::StageCalls(const RankExecution &execution)
    : made(execution.buffers.size()), readBackward(execution.buffers.size(), false),
      readLate(execution.buffers.size(), false) {
  for (const ExecutionStep &step : execution.steps) {
    StageCall call = callOf(step);
    steps.push_back(call);
    for (int buffer : step.reads) {
      readBackward[buffer] = readBackward[buffer] || call != StageCall::Forward;
      readLate[buffer] = readLate[buffer] || call == StageCall::WeightGrad;
    }
    for (int buffer : step.writes)
      if (!made[buffer])
        made[buffer] = call;
  }
}

/// What is made of gradients of weights comes with them.
StageCall StageCalls::callOf(const ExecutionStep &step) const {
  if (!step.backward())
    return StageCall::Forward;
  bool isLate = step.pass == StepPass::WeightGrad ||
                std::any_of(step.reads.begin(), step.reads.end(),
                            [&](int buffer) { return made[buffer] == StageCall::WeightGrad; });
  return isLate ? StageCall::WeightGrad : StageCall::InputGrad;
}

bool StageCalls::isKeptBy(size_t buffer, StageCall call) const {
  switch (call) {
  case StageCall::Forward:
    return readBackward[buffer];
  case StageCall::Backward:
    return made[buffer] == StageCall::Forward;
  case StageCall::InputGrad:
    return made[buffer] != StageCall::InputGrad || readLate[buffer];
  case StageCall::WeightGrad:
    return made[buffer] != StageCall::WeightGrad;
  }
  return false;
}

namespace {

/// What is in memory as the steps of an execution follow one another.
class Liveness {
public:
  /// `elsewhere`: buffers that aren't counted, but may be written over once they are spent.
  explicit Liveness(const RankExecution &execution, std::vector<bool> elsewhere = {})
      : execution(execution), lastUse(execution.buffers.size(), 0),
        live(execution.buffers.size(), false), elsewhere(std::move(elsewhere)) {
    this->elsewhere.resize(execution.buffers.size(), false);
    for (size_t i = 0; i < execution.steps.size(); ++i)
      for (const std::vector<int> *list : {&execution.steps[i].reads, &execution.steps[i].writes})
        for (int buffer : *list)
          lastUse[buffer] = i;
  }

  void skip() { ++at; }
  /// The most bytes in use during the next step.
  int64_t advance() {
    const ExecutionStep &step = execution.steps[at];
    for (int written : step.writes)
      write(step, written);
    int64_t most = now;
    if (!step.operandReads.empty())
      most += execution.workspaceBytes(step.op, spentOperands(step));
    for (const std::vector<int> *list : {&step.reads, &step.writes})
      for (int buffer : *list)
        if (dies(buffer))
          release(buffer);
    ++at;
    return most;
  }

private:
  bool dies(int buffer) const {
    return (live[buffer] || elsewhere[buffer]) && lastUse[buffer] == at;
  }
  void release(int buffer) {
    if (live[buffer])
      now -= execution.buffers[buffer].bytes;
    live[buffer] = false;
  }

  void write(const ExecutionStep &step, int written) {
    const std::vector<Buffer> &buffers = execution.buffers;
    auto reused = std::find_if(step.reads.begin(), step.reads.end(), [&](int read) {
      return dies(read) && buffers[read].bytes == buffers[written].bytes;
    });
    if (step.inPlace && reused != step.reads.end()) {
      elsewhere[written] = elsewhere[written] || elsewhere[*reused];
      release(*reused);
    }
    if (!live[written] && !elsewhere[written] && !buffers[written].persistent) {
      live[written] = true;
      now += buffers[written].bytes;
    }
  }

  std::vector<bool> spentOperands(const ExecutionStep &step) const {
    std::vector<bool> result;
    for (int index : step.operandReads) {
      int buffer = index < 0 ? -1 : step.reads[index];
      bool isShared = std::count(step.reads.begin(), step.reads.end(), buffer) > 1;
      result.push_back(buffer >= 0 && !isShared && dies(buffer));
    }
    return result;
  }

  const RankExecution &execution;
  std::vector<size_t> lastUse; ///< by buffer: the step
  std::vector<bool> live;      ///< by buffer
  std::vector<bool> elsewhere; ///< by buffer
  int64_t now = 0;
  size_t at = 0; ///< the next step
};

} // namespace

std::vector<int64_t> liveBytes(const RankExecution &execution) {
  Liveness liveness(execution);
  std::vector<int64_t> result;
  for (size_t i = 0; i < execution.steps.size(); ++i)
    result.push_back(liveness.advance());
  return result;
}

std::vector<int64_t> temporaryBytes(const RankExecution &execution, StageCall call) {
  StageCalls calls(execution);
  std::vector<bool> elsewhere;
  for (size_t buffer = 0; buffer < execution.buffers.size(); ++buffer)
    elsewhere.push_back(!execution.buffers[buffer].persistent && calls.isKeptBy(buffer, call));
  Liveness liveness(execution, std::move(elsewhere));
  std::vector<int64_t> result(execution.steps.size(), -1);
  for (size_t i = 0; i < result.size(); ++i)
    if (calls.has(call, i))
      result[i] = liveness.advance();
    else
      liveness.skip();
  return result;
}

int64_t peakBytes(const RankExecution &execution) {
  std::vector<int64_t> live = liveBytes(execution);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

} // namespace dtc::plan
