#include "dtc/Schedule/FunctionCalls.h"

#include <algorithm>

namespace dtc::schedule {

namespace {

/// A set of passes, as the names of StageFunction.
using Passes = unsigned;
constexpr Passes kForward = 1, kInputGrad = 2, kWeightGrad = 4,
                 kBackward = kInputGrad | kWeightGrad;

Passes passesOf(const StageFunction &function) {
  return (function.forward ? kForward : 0) | (function.inputGrad ? kInputGrad : 0) |
         (function.weightGrad ? kWeightGrad : 0);
}

Passes passesOf(Pass pass) {
  switch (pass) {
  case Pass::Forward:
    return kForward;
  case Pass::Backward:
    return kBackward;
  case Pass::InputGrad:
    return kInputGrad;
  case Pass::WeightGrad:
    return kWeightGrad;
  }
  return 0;
}

class Translator {
public:
  Translator(const Schedule &schedule, const Communication &communication, int64_t rank,
             const std::vector<StageFunction> &functions)
      : calls(schedule.calls[rank]), messages(communication.calls[rank]),
        communication(communication), functions(functions), steps(communication.steps[rank]) {
    for (const StageFunction &function : functions)
      covered |= passesOf(function);
  }
  FunctionSteps run();

private:
  void callOnce(bool before);
  void makeCalls(size_t index);
  bool absorb(size_t first, Passes &left);
  void emit(int32_t function, size_t first);
  void endOfMessage(const Step &step);
  void refuse(const Call &call, const std::string &reason);

  const std::vector<Call> &calls;
  const std::vector<CallMessages> &messages;
  const Communication &communication;
  const std::vector<StageFunction> &functions;
  const std::vector<Step> &steps;
  Passes covered = 0; ///< by any function
  size_t done = 0;    ///< calls
  FunctionSteps result;
};

} // namespace

void Translator::refuse(const Call &call, const std::string &reason) {
  if (result.error.empty())
    result.error = "microbatch " + std::to_string(call.microbatch) + " of chunk " +
                   std::to_string(call.chunk) + ": " + reason;
}

void Translator::callOnce(bool before) {
  auto first = std::find_if(functions.begin(), functions.end(),
                            [](const StageFunction &function) { return !function.isOnce(); });
  for (auto function = before ? functions.begin() : first;
       function != (before ? first : functions.end()); ++function)
    if (function->isOnce())
      result.steps.push_back({Step::Action::Call, int32_t(function - functions.begin())});
}

void Translator::endOfMessage(const Step &step) {
  const Message &message = communication.messages[step.index];
  bool sends = step.action == Step::Action::Send;
  result.steps.push_back({step.action, -1, step.index, message.microbatch, 0,
                          sends ? 0 : message.inbox, sends ? message.outbox : 0});
}

/// Takes the next call along, whose passes are then left too.
bool Translator::absorb(size_t first, Passes &left) {
  const Call &call = calls[first];
  if (done == calls.size() || calls[done].chunk != call.chunk ||
      calls[done].microbatch != call.microbatch) {
    refuse(call, "its passes don't follow each other, but one function makes them");
    return false;
  }
  if (messages[done].received >= 0) {
    refuse(call, "its backward pass needs a message, but is made with its forward pass");
    return false;
  }
  left |= passesOf(calls[done].pass);
  ++done;
  return true;
}

/// A call of a function for passes of the calls from `first` on.
void Translator::emit(int32_t function, size_t first) {
  Passes passes = passesOf(functions[function]);
  FunctionStep step{Step::Action::Call, function, -1, calls[first].microbatch, calls[first].slot};
  for (size_t i = first; i < done; ++i) {
    if (!(passes & passesOf(calls[i].pass) & (kForward | kInputGrad)))
      continue;
    if (messages[i].received >= 0)
      step.inbox = communication.messages[messages[i].received].inbox;
    if (messages[i].sent >= 0)
      step.outbox = communication.messages[messages[i].sent].outbox;
    if (messages[i].sent >= 0 && i + 1 < done && (passes & kBackward) && (passes & kForward))
      refuse(calls[i], "its forward pass makes a message, but is made with its backward pass");
  }
  result.steps.push_back(step);
}

void Translator::makeCalls(size_t index) {
  if (index < done)
    return; // absorbed
  const Call &call = calls[index];
  Passes left = passesOf(call.pass);
  done = index + 1;
  if (call.pass != Pass::Forward && !(covered & kBackward)) {
    if (messages[index].received >= 0 || messages[index].sent >= 0)
      refuse(call, "no function makes its backward pass, whose messages others wait for");
    return;
  }
  while (left && result.error.empty()) {
    Passes first = left & -left; // the lowest
    auto function = std::find_if(functions.begin(), functions.end(), [&](const StageFunction &f) {
      return f.chunk == call.chunk && (passesOf(f) & first);
    });
    if (function == functions.end())
      return refuse(call, std::string("no function makes its ") +
                              (first == kForward     ? "forward pass"
                               : first == kInputGrad ? "input gradients"
                                                     : "weight gradients"));
    Passes passes = passesOf(*function);
    while ((passes & ~left) && absorb(index, left))
      ;
    if (!result.error.empty())
      return;
    emit(int32_t(function - functions.begin()), index);
    left &= ~passes;
  }
}

FunctionSteps Translator::run() {
  callOnce(true);
  for (const Step &step : steps) {
    if (step.action == Step::Action::Call)
      makeCalls(size_t(step.index));
    else
      endOfMessage(step);
    if (!result.error.empty())
      return {{}, result.error};
  }
  callOnce(false);
  return std::move(result);
}

FunctionSteps functionSteps(const Schedule &schedule, const Communication &communication,
                            int64_t rank, const std::vector<StageFunction> &functions) {
  return Translator(schedule, communication, rank, functions).run();
}

} // namespace dtc::schedule
