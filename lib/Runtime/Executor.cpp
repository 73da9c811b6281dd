#include "dtc-rt/Executor.h"
#include "Instructions.h"

#include <algorithm>

namespace dtc::rt {

size_t callsBeforeUpdate(const fbs::Program &program) {
  uint32_t count = program.schedule()->size();
  while (
      count > 0 &&
      !program.functions()->Get(program.schedule()->Get(count - 1)->function())->per_microbatch())
    --count;
  return count;
}

Result<Executor> Executor::create(const RankContext &context) {
  Executor executor(context);
  if (Status status = executor.createQueues(); !status.isOk())
    return status;
  executor.createTokens();
  for (const fbs::Function *function : *context.program->functions()) {
    auto &list = executor.functions.emplace_back();
    for (const fbs::Instruction *given : *function->instructions()) {
      Result<Instruction> made = executor.prepare(*given);
      if (!made)
        return std::move(made.status()).in(function->name()->str() + ": " + nameOf(*given));
      list.push_back(std::move(*made));
    }
  }
  if (Status status = context.device.finishPreparing(); !status.isOk())
    return status;
  return executor;
}

Status Executor::createQueues() {
  std::vector<QueueSpec> specs;
  for (const fbs::Queue *queue : *context.program->queues())
    specs.push_back({queue->name()->str(), queue->kind()});
  auto made = context.device.createQueues(specs);
  if (!made)
    return made.status();
  queues = std::move(*made);
  begun = context.device.createEvent();
  for (size_t i = 0; i < queues.size(); ++i)
    ended.push_back(context.device.createEvent());
  return Status::ok();
}

/// As many events of a token as the schedule's calls have numbers of its scope.
void Executor::createTokens() {
  Numbers most{};
  for (const fbs::Call *call : *context.program->schedule()) {
    Numbers numbers = numbersOf(*call);
    for (size_t scope = 0; scope < most.size(); ++scope)
      most[scope] = std::max(most[scope], numbers[scope]);
  }
  const auto *scopes = context.program->tokens();
  for (uint32_t i = 0; scopes && i < scopes->size(); ++i) {
    Token &token = tokens.emplace_back();
    token.scope = static_cast<fbs::Scope>(scopes->Get(i));
    for (uint32_t number = 0; number <= most[static_cast<size_t>(token.scope)]; ++number)
      token.events.push_back(context.device.createEvent());
  }
}

Executor::Place Executor::placeOf(const fbs::Ref &ref) const {
  Address arena = ref.space() == fbs::Space::Host ? context.hostArena : context.arena;
  return {arena + ref.offset(), ref.scope() == fbs::Scope::Step ? 0 : ref.stride(), ref.scope()};
}

Result<Executor::Instruction> Executor::prepare(const fbs::Instruction &given) {
  InstructionSpec spec = specOf(*context.program, given, {context.rank, context.position});
  Instruction made{
      nullptr, queues[given.queue()].get(), places.size(), spec.refs.size(), tokenIndices.size(), 0,
      0,       given.training_only()};
  for (const fbs::Ref &ref : spec.refs)
    places.push_back(placeOf(ref));
  addresses.resize(std::max(addresses.size(), spec.refs.size()));
  for (auto [list, count] : {std::pair(given.waits(), &made.numWaits),
                             std::pair(given.signals(), &made.numSignals)})
    if (list) {
      tokenIndices.insert(tokenIndices.end(), list->begin(), list->end());
      *count = list->size();
    }
  if (!spec.operation)
    return made;
  auto operation = context.device.prepare(*made.queue, *spec.operation, nameOf(given));
  if (!operation)
    return operation.status();
  made.operation = std::move(*operation);
  return made;
}

Executor::Numbers Executor::numbersOf(const fbs::Call &call) {
  Numbers numbers;
  for (size_t scope = 0; scope < numbers.size(); ++scope)
    numbers[scope] = numberOf(call, static_cast<fbs::Scope>(scope));
  return numbers;
}

Status Executor::issue(const Instruction &instruction, const Numbers &numbers, StepPart part) {
  const uint32_t *token = tokenIndices.data() + instruction.firstToken;
  for (size_t i = 0; i < instruction.numWaits; ++i)
    instruction.queue->wait(event(*token++, numbers));
  if (instruction.operation && !(part == StepPart::Evaluation && instruction.isTrainingOnly)) {
    const Place *place = places.data() + instruction.firstPlace;
    for (size_t i = 0; i < instruction.numPlaces; ++i, ++place)
      addresses[i] = place->start + numbers[static_cast<size_t>(place->scope)] * place->stride;
    Status status = instruction.operation->issue({addresses.data(), instruction.numPlaces});
    if (!status.isOk())
      return status;
  }
  for (size_t i = 0; i < instruction.numSignals; ++i)
    instruction.queue->signal(event(*token++, numbers));
  return Status::ok();
}

/// The first step is issued as it is: a device may still make up its mind about operations.
Status Executor::issueStep(StepPart part) {
  if (part == StepPart::Evaluation)
    return issueCalls(callsBeforeUpdate(*context.program), part);
  size_t all = context.program->schedule()->size();
  if (++stepsIssued == 2) {
    auto made = context.device.record(computeQueue(), [&] { return issueCalls(all, part); });
    if (!made)
      return made.status();
    recorded = std::move(*made);
  }
  return recorded ? recorded->issue({}) : issueCalls(all, part);
}

Status Executor::issueCalls(size_t count, StepPart part) {
  computeQueue().signal(*begun);
  for (size_t i = 1; i < queues.size(); ++i)
    queues[i]->wait(*begun);
  for (uint32_t i = 0; i < count; ++i) {
    const fbs::Call *call = context.program->schedule()->Get(i);
    if (Status status = context.device.status(); !status.isOk())
      return status;
    Numbers numbers = numbersOf(*call);
    for (const Instruction &instruction : functions[call->function()])
      if (Status status = issue(instruction, numbers, part); !status.isOk())
        return status;
  }
  for (size_t i = 1; i < queues.size(); ++i) {
    queues[i]->signal(*ended[i]);
    computeQueue().wait(*ended[i]);
  }
  return Status::ok();
}

Status Executor::synchronize() {
  for (auto &queue : queues)
    if (Status status = queue->synchronize(); !status.isOk())
      return status;
  return Status::ok();
}

} // namespace dtc::rt
