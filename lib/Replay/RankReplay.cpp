#include "RankReplay.h"

#include <algorithm>

namespace dtc::replay {
namespace {

using fbs::BindingKind;

/// What the host writes before each step.
bool isGiven(BindingKind kind) {
  return kind == BindingKind::Input || kind == BindingKind::Target ||
         kind == BindingKind::LearningRate || kind == BindingKind::StepNumber ||
         kind == BindingKind::Evaluation;
}

/// What the host reads after each step. Counts with a name are about the step as a whole.
bool isAskedFor(const fbs::BindingT &binding) {
  const BindingKind kind = binding.kind;
  return persists(kind) || (kind == BindingKind::Count && !binding.name.empty()) ||
         kind == BindingKind::Output || kind == BindingKind::Loss ||
         kind == BindingKind::GradNorm || kind == BindingKind::NonFinite;
}

/// What the host reads after each evaluation.
bool isEvaluated(const fbs::BindingT &binding) {
  return binding.kind == BindingKind::Loss || binding.kind == BindingKind::Count;
}

bool communicates(const fbs::CollectiveT &op) { return op.kind != fbs::CollectiveKind::Slice; }

} // namespace

RankReplay::RankReplay(const RankClasses &classes, size_t classNumber, const ProgramFacts &role)
    : classes(classes), classNumber(classNumber), role(role), program(role.program),
      givenBytes(role.bindingBytes),
      added(role.functions.size(), std::vector<uint32_t>(role.program.bindings.size())),
      clocks(std::max<size_t>(role.program.queues.size(), 1)) {
  for (uint32_t binding = 0; binding < program.bindings.size(); ++binding)
    current.emplace_back(role.instances(binding), Content(0));
  for (uint64_t events : role.tokenEvents)
    tokens.emplace_back(events);
}

std::string RankReplay::run(Traffic &result, const std::vector<uint32_t> &steps) {
  traffic = &result;
  traffic->program = &role;
  for (uint32_t step : steps) {
    site.step = step;
    if (std::string wrong = startStep(); !wrong.empty())
      return wrong;
    const size_t calls = evaluates() ? role.callsBeforeUpdate() : program.schedule.size();
    for (site.call = 0; site.call < calls; ++site.call)
      if (std::string wrong = makeCall(); !wrong.empty())
        return wrong;
    if (std::string wrong = finishStep(); !wrong.empty())
      return wrong;
  }
  return {};
}

Content RankReplay::newBlock(size_t size, uint32_t callIndex) {
  Content first = nextContent;
  blocks.push_back({first, site.step, callIndex});
  nextContent += size;
  return first;
}

uint64_t RankReplay::homeOf(uint32_t binding, uint32_t instance) const {
  const fbs::Ref &ref = *program.bindings[binding]->ref;
  return addressOf(ref, fbs::Call(0, instance, 0, 0, 0));
}

/// All queues are empty; the host writes inputs, before the first step also the state.
std::string RankReplay::startStep() {
  Clock all;
  Time now{site.step, 0};
  for (const Clock &clock : clocks)
    all.join(clock);
  std::ranges::fill(clocks, all);
  size_t microbatches = role.numMicrobatches();
  Content first = newBlock(program.bindings.size() * microbatches, kHost);
  for (uint32_t binding = 0; binding < program.bindings.size(); ++binding) {
    BindingKind kind = program.bindings[binding]->kind;
    bool writes = isGiven(kind) || (persists(kind) && site.step == 0);
    for (uint32_t instance = 0; instance < role.instances(binding); ++instance) {
      if (!writes && !persists(kind))
        current[binding][instance] = 0;
      if (!writes)
        continue;
      Content content = first + binding * microbatches + instance;
      uint64_t begin = homeOf(binding, instance), end = begin + role.bindingBytes[binding];
      if (memory.write(begin, end, content, now, all))
        return classes.describe(classNumber) + ": " + role.describeBinding(binding) +
               " lies over another binding";
      current[binding][instance] = content;
    }
  }
  for (std::vector<uint32_t> &counts : added)
    std::ranges::fill(counts, 0);
  return {};
}

/// What the host reads lies where it is looked for, and is of this step.
std::string RankReplay::finishStep() {
  std::string where =
      classes.describe(classNumber) + ": " + nameOfStep(site.step) + ": at the end ";
  for (uint32_t binding = 0; binding < program.bindings.size(); ++binding) {
    const fbs::BindingT &each = *program.bindings[binding];
    if (!(evaluates() ? isEvaluated(each) && role.isGivenEarly(binding) : isAskedFor(each)))
      continue;
    for (uint32_t instance = 0; instance < role.instances(binding); ++instance) {
      std::string name = role.describeBinding(binding);
      if (role.instances(binding) > 1)
        name += " of microbatch " + std::to_string(instance);
      Content content = current[binding][instance];
      if (!content)
        return where + name + " was not computed";
      uint64_t begin = homeOf(binding, instance);
      if (auto fault = memory.holds(begin, begin + role.bindingBytes[binding], content))
        return where + name + " is asked for, but " + describe(fault->found) +
               " lies there, at offset " + std::to_string(fault->address);
    }
  }
  for (size_t function = 0; function < role.functions.size(); ++function)
    for (uint32_t binding : role.functions[function].accumulators)
      if (added[role.familyOf[function]][binding] != role.numMicrobatches())
        return where + role.describeBinding(binding) + " lacks microbatches";
  return {};
}

std::string RankReplay::makeCall() {
  call = &program.schedule[site.call];
  const FunctionFacts &facts = role.functions[call->function()];
  const fbs::FunctionT &function = role.functionOf(*call);
  callFirst = newBlock(function.values.size() + function.instructions.size(), site.call);
  expected.resize(function.values.size());
  for (size_t value = 0; value < expected.size(); ++value)
    expected[value] = evaluates() ? 0 : callFirst + value;
  site.instruction = 0;
  if (std::string wrong = bindArguments(facts); !wrong.empty())
    return fail(wrong);
  if (std::string wrong = accumulate(facts); !wrong.empty())
    return fail(wrong);
  if (std::string wrong = checkWhole(facts); !wrong.empty())
    return fail(wrong);
  for (const InstructionAccesses &entry : facts.instructions) {
    if (std::string wrong = execute(entry); !wrong.empty())
      return wrong;
    ++site.instruction;
  }
  return checkResults(facts);
}

/// A gradient is taken as it was left, as a whole or as the rank's part.
std::string RankReplay::bindArguments(const FunctionFacts &facts) {
  const fbs::FunctionT &function = role.functionOf(*call);
  for (const Bound &argument : facts.arguments) {
    expected[argument.value] =
        argument.isWhole ? kPieces
                         : current[argument.binding][role.instanceOf(argument.binding, *call)];
    const uint64_t bytes = function.values[argument.value].bytes();
    const uint64_t given = givenBytes[argument.binding];
    if (!argument.isWhole && expected[argument.value] && bytes != given)
      return "takes " + std::to_string(bytes) + " bytes of " +
             role.describeBinding(argument.binding) + ", of which " + std::to_string(given) +
             " were given";
  }
  return {};
}

/// Microbatches are added in ascending order, each of them once.
std::string RankReplay::accumulate(const FunctionFacts &facts) {
  for (uint32_t binding : facts.accumulators) {
    uint32_t &count = added[role.familyOf[call->function()]][binding];
    if (call->microbatch() != count)
      return "adds its microbatch to " + role.describeBinding(binding) +
             ", where microbatch " + std::to_string(count) + " comes next";
    ++count;
  }
  return {};
}

/// What is called once a step reads accumulators when all microbatches are in them.
std::string RankReplay::checkWhole(const FunctionFacts &facts) {
  if (facts.isPerMicrobatch)
    return {};
  for (const Bound &argument : facts.arguments)
    for (size_t function = 0; function < role.functions.size(); ++function)
      if (std::ranges::find(role.functions[function].accumulators, argument.binding) !=
              role.functions[function].accumulators.end() &&
          added[role.familyOf[function]][argument.binding] != role.numMicrobatches())
        return "takes " + role.describeBinding(argument.binding) +
               ", which so far is the sum of only " +
               std::to_string(added[role.familyOf[function]][argument.binding]) + " microbatches";
  return {};
}

std::string RankReplay::checkResults(const FunctionFacts &facts) {
  const fbs::FunctionT &function = role.functionOf(*call);
  for (const Bound &result : facts.results) {
    Content content = expected[result.value];
    if (content == kPieces)
      continue;
    if (evaluates() && !content) {
      if (!persists(program.bindings[result.binding]->kind))
        std::ranges::fill(current[result.binding], 0);
      continue;
    }
    const fbs::Value &value = function.values[result.value];
    uint64_t begin = addressOf(value.ref(), *call);
    if (auto fault = memory.holds(begin, begin + value.bytes(), content); fault || !content)
      return failResult(result, content, fault.value_or(Fault()));
    std::vector<Content> &instances = current[result.binding];
    if (!result.isWhole)
      givenBytes[result.binding] = value.bytes();
    if (result.isWhole)
      std::ranges::fill(instances, content);
    else
      instances[role.instanceOf(result.binding, *call)] = content;
  }
  return {};
}

std::string RankReplay::execute(const InstructionAccesses &entry) {
  const fbs::InstructionT &instruction = *entry.instruction;
  Clock &clock = clocks[instruction.queue];
  std::vector<uint32_t> waits;
  for (uint32_t token : instruction.waits) {
    const TokenEvent &event = tokens[token][numberOf(*call, program.tokens[token])];
    clock.join(event.clock);
    if (event.event != ~0u)
      waits.push_back(event.event);
  }
  Time now{instruction.queue, ++clock.ticks[instruction.queue]};
  const auto *message = instruction.op.AsMessage();
  size_t before = traffic->events.size();
  bool takesPart = !(evaluates() && instruction.training_only) &&
                   (!message || classes.channelOf(classNumber, *message));
  if (takesPart) {
    if (std::string wrong = touch(entry, now, clock); !wrong.empty())
      return wrong;
    if (std::string wrong = meet(entry, now, clock); !wrong.empty())
      return wrong;
  }
  if (traffic->events.size() == before && (!waits.empty() || !instruction.signals.empty()))
    newEvent();
  if (traffic->events.size() > before)
    traffic->events.back().waits = std::move(waits);
  for (uint32_t token : instruction.signals)
    tokens[token][numberOf(*call, program.tokens[token])] = {
        clock, static_cast<uint32_t>(traffic->events.size() - 1)};
  return {};
}

/// The instruction waits for others or is waited for.
uint32_t RankReplay::newEvent() {
  const fbs::FunctionT &function = role.functionOf(*call);
  traffic->events.push_back({site, function.instructions[site.instruction]->queue, {}});
  return static_cast<uint32_t>(traffic->events.size() - 1);
}

/// Scratch memory is written first, results last.
std::string RankReplay::touch(const InstructionAccesses &entry, Time now, const Clock &clock) {
  const FunctionFacts &facts = role.functions[call->function()];
  if (entry.scratch.bytes) {
    uint64_t begin = addressOf(entry.scratch.ref, *call);
    Content content = callFirst + expected.size() + site.instruction;
    if (auto fault = memory.write(begin, begin + entry.scratch.bytes, content, now, clock))
      return failWrite("scratch memory", *fault);
  }
  for (uint32_t i = entry.reads; i < entry.writes; ++i) {
    const Access &access = facts.accesses[i];
    Content content = expected[access.value];
    if (content == kPieces) {
      if (std::string wrong = readPieces(access, now, clock); !wrong.empty())
        return wrong;
      continue;
    }
    uint64_t begin = addressOf(access.ref, *call);
    if (!content)
      return failRead(access, content, {});
    if (auto fault = memory.read(begin, begin + access.bytes, content, now, clock))
      return failRead(access, content, *fault);
  }
  for (uint32_t i = entry.writes; i < entry.end; ++i) {
    const Access &access = facts.accesses[i];
    uint64_t begin = addressOf(access.ref, *call);
    expected[access.value] = callFirst + access.value;
    if (auto fault = memory.write(begin, begin + access.bytes, expected[access.value], now, clock,
                                  access.takesOver))
      return failWrite(describeValue(role.functionOf(*call), access.value), *fault);
  }
  return {};
}

/// Each microbatch's part of an argument that is all of them.
std::string RankReplay::readPieces(const Access &access, Time now, const Clock &clock) {
  const FunctionFacts &facts = role.functions[call->function()];
  uint32_t binding = std::ranges::find(facts.arguments, access.value, &Bound::value)->binding;
  uint64_t begin = addressOf(access.ref, *call), end = begin + access.bytes;
  uint64_t home = homeOf(binding, 0), bytes = role.bindingBytes[binding];
  while (begin < end) {
    uint64_t instance = (begin - home) / bytes;
    uint64_t next = std::min(end, home + (instance + 1) * bytes);
    Content content = current[binding][instance];
    if (!content)
      return failRead(access, content, {});
    if (auto fault = memory.read(begin, next, content, now, clock))
      return failRead(access, content, *fault);
    begin = next;
  }
  return {};
}

/// Records what other ranks take part in.
std::string RankReplay::meet(const InstructionAccesses &entry, Time now, const Clock &clock) {
  const fbs::InstructionT &instruction = *entry.instruction;
  if (const auto *message = instruction.op.AsMessage()) {
    Channel channel = *classes.channelOf(classNumber, *message);
    bool isSend = message->kind == fbs::MessageKind::Send;
    uint64_t key = (uint64_t(channel.sender) << 48) | (uint64_t(channel.peers) << 32) |
                   (uint64_t(channel.number) << 1) | isSend;
    if (std::string wrong = keepsOrder(lastOnChannel, key, now, clock); !wrong.empty())
      return fail(wrong);
    return sendOrReceive(*message, channel);
  }
  const auto *collective = instruction.op.AsCollective();
  if (!collective || !communicates(*collective))
    return {};
  Communicator communicator = classes.communicatorOf(classNumber, collective->group);
  if (std::string wrong = keepsOrder(lastInGroup, communicator.number, now, clock); !wrong.empty())
    return fail(wrong);
  if (!communicator.isShared)
    return {};
  traffic->groupCalls[communicator.number].push_back({site, collective, newEvent()});
  return {};
}

std::string RankReplay::sendOrReceive(const fbs::MessageT &message, const Channel &channel) {
  const FunctionFacts &facts = role.functions[call->function()];
  const fbs::InstructionT &instruction =
      *role.functionOf(*call).instructions[site.instruction];
  Transfer transfer{site, &message, {}, newEvent()};
  bool isSend = message.kind == fbs::MessageKind::Send;
  for (uint32_t value : isSend ? instruction.reads : instruction.writes) {
    uint32_t binding = facts.messageBinding[value];
    if (binding == ~0u)
      return fail("exchanges a value that is bound to no inbox or outbox: value " +
                  std::to_string(value));
    transfer.bindings.push_back(binding);
  }
  (isSend ? traffic->sent : traffic->received)[channel].push_back(std::move(transfer));
  return {};
}

/// Of two messages on a channel, or two collectives of a group, all ranks must know which is first.
std::string RankReplay::keepsOrder(std::map<uint64_t, Time> &last, uint64_t key, Time now,
                                   const Clock &clock) {
  Time &before = last[key];
  if (!clock.includes(before))
    return "may begin before the one that was issued before it to the same ranks";
  before = now;
  return {};
}

} // namespace dtc::replay
