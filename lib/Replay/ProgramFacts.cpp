#include "ProgramFacts.h"

#include "Memory.h"
#include "SameParts.h"

#include <algorithm>
#include <set>

namespace dtc::replay {

/// The largest number of each kind that calls have, of one function or of all.
static fbs::Call largestOf(const fbs::ProgramT &program, std::optional<size_t> function = {}) {
  fbs::Call largest(0, program.num_microbatches - 1, 0, 0, 0);
  for (const fbs::Call &call : program.schedule)
    if (!function || call.function() == *function)
      largest = fbs::Call(0, program.num_microbatches - 1, std::max(largest.slot(), call.slot()),
                          std::max(largest.inbox(), call.inbox()),
                          std::max(largest.outbox(), call.outbox()));
  return largest;
}

std::string ProgramFacts::prepare() {
  if (program.queues.size() > kMostQueues)
    return "has more queues than can be replayed: " + std::to_string(program.queues.size());
  if (std::string wrong = checkSchedule(); !wrong.empty())
    return wrong;
  largest = largestOf(program);
  for (const auto &binding : program.bindings) {
    uint64_t bytes = sizeOf(binding->dtype);
    for (int64_t size : binding->local_shape)
      bytes *= uint64_t(size);
    bindingBytes.push_back(bytes);
  }
  for (fbs::Scope scope : program.tokens)
    tokenEvents.push_back(numberOf(largest, scope) + 1);
  for (const auto &function : program.functions)
    if (std::string wrong = prepareFunction(*function, functions.emplace_back()); !wrong.empty())
      return "@" + function->name + ": " + wrong;
  if (std::string wrong = findFamilies(); !wrong.empty())
    return wrong;
  return checkCallCounts();
}

std::string ProgramFacts::checkSchedule() const {
  if (program.num_microbatches == 0)
    return "has no microbatches";
  for (const fbs::Call &call : program.schedule) {
    if (call.function() >= program.functions.size())
      return "the schedule calls a function that the program lacks: " +
             std::to_string(call.function());
    if (call.microbatch() >= program.num_microbatches)
      return "the schedule has an impossible microbatch: " + std::to_string(call.microbatch());
  }
  return {};
}

static bool takesTheSame(const FunctionFacts &a, const FunctionFacts &b) {
  auto sameBindings = [](const std::vector<Bound> &first, const std::vector<Bound> &second) {
    return std::ranges::equal(first, second, {}, &Bound::binding, &Bound::binding);
  };
  return a.isPerMicrobatch && b.isPerMicrobatch && sameBindings(a.arguments, b.arguments) &&
         sameBindings(a.results, b.results);
}

/// What stands for a function in the last microbatch takes and gives the same, there alone.
std::string ProgramFacts::findFamilies() {
  for (uint32_t i = 0; i < functions.size(); ++i) {
    const fbs::FunctionT &function = *program.functions[i];
    const uint32_t other = function.last_of < 0 ? i : static_cast<uint32_t>(function.last_of);
    familyOf.push_back(other);
    if (function.last_of < 0)
      continue;
    if (other >= functions.size() || program.functions[other]->last_of >= 0)
      return "@" + function.name +
             " stands for what is no function of other microbatches: " + std::to_string(other);
    if (!takesTheSame(functions[other], functions[i]))
      return "@" + function.name + " stands for what takes or gives something else: @" +
             program.functions[other]->name;
  }
  for (const fbs::Call &call : program.schedule)
    if (functionOf(call).last_of >= 0 && call.microbatch() + 1 != numMicrobatches())
      return "the schedule calls @" + functionOf(call).name +
             ", which is for the last microbatch, for microbatch " +
             std::to_string(call.microbatch());
  return {};
}

size_t ProgramFacts::callsBeforeUpdate() const {
  size_t count = program.schedule.size();
  while (count > 0 && !functions[program.schedule[count - 1].function()].isPerMicrobatch)
    --count;
  return count;
}

bool ProgramFacts::isGivenEarly(uint32_t binding) const {
  auto gives = [&](const fbs::Call &call) {
    return std::ranges::find(functions[call.function()].results, binding, &Bound::binding) !=
           functions[call.function()].results.end();
  };
  return std::any_of(program.schedule.begin(), program.schedule.begin() + callsBeforeUpdate(),
                     gives);
}

/// Once for each microbatch, or once.
std::string ProgramFacts::checkCallCounts() const {
  std::vector<std::set<uint32_t>> called(functions.size());
  for (const fbs::Call &call : program.schedule)
    if (!called[familyOf[call.function()]].insert(call.microbatch()).second)
      return "the schedule calls @" + functionOf(call).name + " twice for microbatch " +
             std::to_string(call.microbatch());
  for (size_t i = 0; i < functions.size(); ++i)
    if (size_t calls = called[familyOf[i]].size();
        calls != (functions[i].isPerMicrobatch ? numMicrobatches() : 1))
      return "the schedule calls @" + program.functions[i]->name + " " + std::to_string(calls) +
             " times in a step of " + std::to_string(numMicrobatches()) + " microbatches";
  return {};
}

std::string ProgramFacts::prepareFunction(const fbs::FunctionT &function, FunctionFacts &facts) {
  for (const auto &instruction : function.instructions)
    if (std::string wrong = checkIssue(*instruction); !wrong.empty())
      return replay::describe(function, *instruction) + ": " + wrong;
  const fbs::Call most = largestOf(program, functions.size() - 1);
  if (std::string wrong = AccessCollector(program, function, most).collect(facts); !wrong.empty())
    return wrong;
  if (std::string wrong = checkSameParts(function); !wrong.empty())
    return wrong;
  for (const fbs::BoundValue &bound : function.arguments)
    if (std::string wrong = bind(function, bound, facts.arguments); !wrong.empty())
      return "argument " + wrong;
  for (const fbs::BoundValue &bound : function.results)
    if (std::string wrong = bind(function, bound, facts.results); !wrong.empty())
      return "result " + wrong;
  facts.messageBinding.assign(function.values.size(), ~0u);
  for (const auto *list : {&facts.arguments, &facts.results})
    for (const Bound &bound : *list)
      if (fbs::BindingKind kind = program.bindings[bound.binding]->kind;
          kind == fbs::BindingKind::Inbox || kind == fbs::BindingKind::Outbox)
        facts.messageBinding[bound.value] = bound.binding;
  facts.isPerMicrobatch = function.per_microbatch;
  findAccumulators(facts);
  return {};
}

std::string ProgramFacts::checkIssue(const fbs::InstructionT &instruction) const {
  if (instruction.queue >= std::max<size_t>(program.queues.size(), 1))
    return "goes to a queue that the program lacks: " + std::to_string(instruction.queue);
  for (const auto *list : {&instruction.waits, &instruction.signals})
    for (uint32_t token : *list)
      if (token >= program.tokens.size())
        return "names a token that the program lacks: " + std::to_string(token);
  return {};
}

std::string ProgramFacts::bind(const fbs::FunctionT &function, const fbs::BoundValue &bound,
                              std::vector<Bound> &list) const {
  std::string where = "of value " + std::to_string(bound.value());
  if (bound.value() >= function.values.size() || bound.binding() >= program.bindings.size())
    return where + " or its binding is one that the program lacks";
  const fbs::Value &value = function.values[bound.value()];
  const fbs::Ref &home = *program.bindings[bound.binding()]->ref, &place = value.ref();
  uint64_t bytes = bindingBytes[bound.binding()];
  bool isWhole = home.scope() == fbs::Scope::Microbatch && place.scope() == fbs::Scope::Step;
  bool isSame = place.scope() == home.scope() &&
                (home.scope() == fbs::Scope::Step || place.stride() == home.stride());
  if (place.offset() != home.offset() || place.space() != home.space() || !(isSame || isWhole))
    return where + " isn't where its binding is: " + describeBinding(bound.binding());
  // Of a gradient that is scattered, the rank's part stays at the beginning of its place.
  const bool isPart = program.bindings[bound.binding()]->kind == fbs::BindingKind::Gradient &&
                      !isWhole && value.bytes() <= bytes;
  if ((!isPart && value.bytes() != (isWhole ? bytes * numMicrobatches() : bytes)) ||
      (isWhole && numMicrobatches() > 1 && home.stride() != bytes))
    return where + " has another size than its binding: " + describeBinding(bound.binding());
  list.push_back({bound.value(), bound.binding(), isWhole});
  return {};
}

void ProgramFacts::findAccumulators(FunctionFacts &facts) const {
  if (!facts.isPerMicrobatch)
    return;
  for (const Bound &argument : facts.arguments)
    for (const Bound &result : facts.results)
      if (argument.binding == result.binding && argument.value != result.value &&
          instances(argument.binding) == 1)
        facts.accumulators.push_back(argument.binding);
}

std::string nameOfStep(uint32_t step) {
  return step == kEvaluation ? "evaluation" : "step " + std::to_string(step + 1);
}

std::string ProgramFacts::describeCall(uint32_t step, uint32_t index) const {
  const fbs::Call &call = program.schedule[index];
  std::string text =
      nameOfStep(step) + ": call " + std::to_string(index) + " @" + functionOf(call).name;
  if (!functions[call.function()].isPerMicrobatch)
    return text;
  text += " (microbatch " + std::to_string(call.microbatch()) + ", slot " +
          std::to_string(call.slot());
  if (largest.inbox() || largest.outbox())
    text += ", inbox " + std::to_string(call.inbox()) + ", outbox " + std::to_string(call.outbox());
  return text + ")";
}

std::string ProgramFacts::describe(const Site &site) const {
  const fbs::FunctionT &function = functionOf(program.schedule[site.call]);
  return describeCall(site.step, site.call) + ": " +
         replay::describe(function, *function.instructions[site.instruction]);
}

std::string ProgramFacts::describeBinding(uint32_t index) const {
  const fbs::BindingT &binding = *program.bindings[index];
  std::string text = fbs::EnumNameBindingKind(binding.kind);
  if (!binding.name.empty())
    text += " '" + binding.name + "'";
  return binding.state.empty() ? text : text + " (" + binding.state + ")";
}

} // namespace dtc::replay
