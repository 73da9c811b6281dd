#include "PipelinePrograms.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

namespace dtc::replay::test {

using fbs::BindingKind;
using fbs::Scope;

namespace {

constexpr uint64_t kBytes = 256;
constexpr uint32_t kPlaces = 2;           ///< of an inbox or outbox
constexpr uint64_t kTemporaries = 1 << 22; ///< where temporaries begin, behind the bindings
constexpr uint64_t kRing = 4;             ///< buffers that a chain of kernels takes in turn

/// Builds the program of one rank of the pipeline.
class RankBuilder {
public:
  RankBuilder(const PipelineShape &shape, const schedule::Schedule &schedule, int64_t rank)
      : shape(shape), schedule(schedule), rank(rank),
        program(std::make_unique<fbs::ProgramT>()) {}

  std::unique_ptr<fbs::ProgramT> build();

private:
  int64_t stage(int64_t chunk) const { return schedule.stage(rank, chunk); }
  bool isFirst(int64_t chunk) const { return stage(chunk) == 0; }
  bool isLast(int64_t chunk) const { return stage(chunk) + 1 == shape.schedule.stages(); }

  void addGroups();
  void addQueue(const std::string &name, fbs::QueueKind kind);
  uint32_t peersOf(int64_t otherRank);
  uint32_t bind(BindingKind kind, const std::string &name, Scope scope = Scope::Step);
  uint32_t binding(const std::string &name) const { return bindings.at(name); }
  void addBindings(int64_t chunk);
  void addCommunication(int64_t chunk);
  void addMessage(const std::string &name, int64_t chunk, bool sends, const std::string &binding,
                  int64_t otherRank, uint32_t channel);
  void addForward(int64_t chunk);
  void addBackward(int64_t chunk);
  void addInputGrad(int64_t chunk);
  void addWeightGrad(int64_t chunk);
  void addClear();
  void addUpdate();
  void addSchedule();
  void call(const std::string &function, int64_t microbatch = 0, int64_t slot = 0);

  // The function that is being built.
  void begin(const std::string &name);
  uint32_t argument(const std::string &binding);
  uint32_t temporary();
  uint32_t resultOf(const std::string &binding);
  uint32_t valueAt(const fbs::Ref &ref, uint64_t bytes = kBytes);
  fbs::InstructionT &launch(const std::string &name, std::vector<uint32_t> reads,
                            std::vector<uint32_t> writes);
  uint32_t layers(uint32_t value, int32_t count);
  void allReduce(uint32_t group, uint32_t value, uint32_t result);
  void waitFor(const std::string &token, size_t instruction);
  void signal(const std::string &token);
  fbs::FunctionT &function() { return *program->functions.back(); }

  const PipelineShape &shape;
  const schedule::Schedule &schedule;
  int64_t rank;
  std::unique_ptr<fbs::ProgramT> program;
  std::map<std::string, uint32_t> bindings, tokens, functions;
  std::map<int64_t, uint32_t> peers;
  uint64_t homes = 0;       ///< end of the bindings' memory
  uint64_t temporaries = 0; ///< end of that of the function
};

/// "w1": of a chunk or stage.
std::string numbered(const std::string &name, int64_t number) {
  return name + std::to_string(number);
}

std::unique_ptr<fbs::ProgramT> RankBuilder::build() {
  program->num_microbatches = shape.schedule.microbatches;
  program->kernels = {"kernel"};
  addGroups();
  addQueue("compute", fbs::QueueKind::Compute);
  bind(BindingKind::LearningRate, "lr");
  bind(BindingKind::StepNumber, "step");
  bind(BindingKind::GradNorm, "norm");
  for (int64_t chunk = 0; chunk < shape.schedule.chunks; ++chunk)
    addBindings(chunk);
  for (int64_t chunk = 0; chunk < shape.schedule.chunks; ++chunk) {
    addCommunication(chunk);
    addForward(chunk);
    if (describe(shape.schedule.kind).splitsBackward()) {
      addInputGrad(chunk);
      addWeightGrad(chunk);
    } else {
      addBackward(chunk);
    }
  }
  addClear();
  addUpdate();
  addSchedule();
  program->arena_bytes = kTemporaries + 16 * kBytes;
  return std::move(program);
}

/// Group 0: the ranks of the stage; 1: everybody.
void RankBuilder::addGroups() {
  int32_t own = shape.ranksPerStage;
  for (auto [first, count] : {std::pair<int32_t, int32_t>(rank * own, own),
                              {0, own * static_cast<int32_t>(shape.schedule.ranks)}}) {
    auto list = std::make_unique<fbs::RankListT>();
    list->ranks.resize(count);
    std::iota(list->ranks.begin(), list->ranks.end(), first);
    auto group = std::make_unique<fbs::GroupT>();
    group->lists.push_back(std::move(list));
    program->groups.push_back(std::move(group));
  }
}

void RankBuilder::addQueue(const std::string &name, fbs::QueueKind kind) {
  auto queue = std::make_unique<fbs::QueueT>();
  queue->name = name;
  queue->kind = kind;
  program->queues.push_back(std::move(queue));
}

uint32_t RankBuilder::peersOf(int64_t otherRank) {
  auto [it, isNew] = peers.try_emplace(otherRank, program->peers.size());
  if (isNew) {
    auto list = std::make_unique<fbs::RankListT>();
    for (int32_t i = 0; i < shape.ranksPerStage; ++i)
      list->ranks.push_back(otherRank * shape.ranksPerStage + i);
    program->peers.push_back(std::move(list));
  }
  return it->second;
}

uint32_t RankBuilder::bind(BindingKind kind, const std::string &name, Scope scope) {
  auto result = std::make_unique<fbs::BindingT>();
  result->kind = kind;
  result->name = name;
  result->dtype = fbs::DType::F32;
  result->local_shape = {kBytes / 4};
  result->ref = std::make_unique<fbs::Ref>(homes, scope == Scope::Step ? 0 : kBytes, scope,
                                           fbs::Space::Device);
  uint64_t count = 1;
  if (scope == Scope::Microbatch || scope == Scope::Slot)
    count = shape.schedule.microbatches;
  else if (scope != Scope::Step)
    count = kPlaces;
  homes += count * kBytes;
  bindings[name] = program->bindings.size();
  program->bindings.push_back(std::move(result));
  return bindings[name];
}

void RankBuilder::addBindings(int64_t chunk) {
  bind(BindingKind::Parameter, numbered("w", chunk));
  bind(BindingKind::State, numbered("m", chunk));
  bind(BindingKind::Gradient, numbered("g", chunk));
  bind(BindingKind::Kept, numbered("kept", chunk), Scope::Slot);
  if (describe(shape.schedule.kind).splitsBackward())
    bind(BindingKind::Kept, numbered("dkept", chunk), Scope::Slot);
  if (isFirst(chunk))
    bind(BindingKind::Input, "ids", Scope::Microbatch);
  if (isLast(chunk)) {
    bind(BindingKind::Target, "target", Scope::Microbatch);
    bind(BindingKind::Loss, "loss");
  }
}

/// Messages between neighbours are known by the boundary between the stages.
void RankBuilder::addCommunication(int64_t chunk) {
  int64_t s = stage(chunk), ranks = shape.schedule.ranks;
  auto channel = [](int64_t boundary, bool forward) {
    return static_cast<uint32_t>(2 * boundary + forward);
  };
  if (!isFirst(chunk)) {
    int64_t before = (s - 1) % ranks;
    bind(BindingKind::Inbox, numbered("act", s), Scope::Inbox);
    bind(BindingKind::Outbox, numbered("dact", s), Scope::Outbox);
    addMessage("receive_forward", chunk, false, numbered("act", s), before, channel(s, true));
    addMessage("send_backward", chunk, true, numbered("dact", s), before, channel(s, false));
  }
  if (!isLast(chunk)) {
    int64_t after = (s + 1) % ranks;
    bind(BindingKind::Outbox, numbered("act", s + 1), Scope::Outbox);
    bind(BindingKind::Inbox, numbered("dact", s + 1), Scope::Inbox);
    addMessage("send_forward", chunk, true, numbered("act", s + 1), after, channel(s + 1, true));
    addMessage("receive_backward", chunk, false, numbered("dact", s + 1), after,
               channel(s + 1, false));
  }
}

void RankBuilder::addMessage(const std::string &name, int64_t chunk, bool sends,
                             const std::string &bound, int64_t otherRank, uint32_t channel) {
  addQueue(numbered(name, chunk), sends ? fbs::QueueKind::Send : fbs::QueueKind::Receive);
  begin(numbered(name, chunk));
  uint32_t value = sends ? argument(bound) : resultOf(bound);
  fbs::MessageT message;
  message.kind = sends ? fbs::MessageKind::Send : fbs::MessageKind::Receive;
  message.peers = peersOf(otherRank);
  message.channel = channel;
  message.buffers = {{function().values[value].ref(), kBytes}};
  auto instruction = std::make_unique<fbs::InstructionT>();
  instruction->name = name;
  instruction->queue = program->queues.size() - 1;
  (sends ? instruction->reads : instruction->writes) = {value};
  instruction->op.Set(std::move(message));
  function().instructions.push_back(std::move(instruction));
  Scope scope = sends ? Scope::Outbox : Scope::Inbox;
  for (const char *suffix : {"/full", "/empty"}) {
    tokens[bound + suffix] = program->tokens.size();
    program->tokens.push_back(scope);
  }
  waitFor(bound + (sends ? "/full" : "/empty"), 0);
  signal(bound + (sends ? "/empty" : "/full"));
}

void RankBuilder::begin(const std::string &name) {
  functions[name] = program->functions.size();
  program->functions.push_back(std::make_unique<fbs::FunctionT>());
  function().name = name;
  function().per_microbatch = name != "clear" && name != "update";
  temporaries = kTemporaries;
}

uint32_t RankBuilder::valueAt(const fbs::Ref &ref, uint64_t bytes) {
  function().values.push_back({ref, bytes});
  return function().values.size() - 1;
}

uint32_t RankBuilder::argument(const std::string &name) {
  uint32_t value = valueAt(*program->bindings[binding(name)]->ref);
  function().arguments.push_back({value, binding(name)});
  return value;
}

uint32_t RankBuilder::resultOf(const std::string &name) {
  uint32_t value = valueAt(*program->bindings[binding(name)]->ref);
  function().results.push_back({value, binding(name)});
  return value;
}

uint32_t RankBuilder::temporary() {
  uint64_t offset = temporaries;
  temporaries += kBytes;
  return valueAt({offset, 0, Scope::Step, fbs::Space::Device});
}

fbs::InstructionT &RankBuilder::launch(const std::string &name, std::vector<uint32_t> reads,
                                       std::vector<uint32_t> writes) {
  fbs::LaunchT op;
  for (const auto *list : {&reads, &writes})
    for (uint32_t value : *list)
      op.args.push_back(function().values[value].ref());
  for (uint32_t value : writes) {
    auto isThere = [&](uint32_t read) {
      return function().values[read].ref().offset() == function().values[value].ref().offset();
    };
    auto operand = std::ranges::find_if(reads, isThere);
    op.in_place.push_back(operand == reads.end() ? -1 : operand - reads.begin());
  }
  auto instruction = std::make_unique<fbs::InstructionT>();
  instruction->name = name;
  instruction->reads = std::move(reads);
  instruction->writes = std::move(writes);
  instruction->op.Set(std::move(op));
  function().instructions.push_back(std::move(instruction));
  return *function().instructions.back();
}

/// A chain of kernels; each needs what two before it computed.
uint32_t RankBuilder::layers(uint32_t value, int32_t count) {
  uint32_t before = value;
  uint64_t ring = temporaries;
  temporaries += kRing * kBytes;
  for (int32_t i = 0; i < count; ++i) {
    uint32_t next = valueAt({ring + i % kRing * kBytes, 0, Scope::Step, fbs::Space::Device});
    launch("layer" + std::to_string(i), {value, before}, {next});
    before = value;
    value = next;
  }
  return value;
}

void RankBuilder::allReduce(uint32_t group, uint32_t value, uint32_t result) {
  fbs::CollectiveT op;
  op.kind = fbs::CollectiveKind::AllReduce;
  op.group = group;
  auto operand = std::make_unique<fbs::CollectiveOperandT>();
  operand->source = std::make_unique<fbs::Ref>(function().values[value].ref());
  operand->target = std::make_unique<fbs::Ref>(function().values[result].ref());
  operand->shape = {kBytes / 4};
  op.operands.push_back(std::move(operand));
  auto instruction = std::make_unique<fbs::InstructionT>();
  instruction->name = "all_reduce";
  instruction->reads = {value};
  instruction->writes = {result};
  instruction->op.Set(std::move(op));
  function().instructions.push_back(std::move(instruction));
}

void RankBuilder::waitFor(const std::string &token, size_t instruction) {
  function().instructions[instruction]->waits.push_back(tokens.at(token));
}

/// By the last instruction.
void RankBuilder::signal(const std::string &token) {
  function().instructions.back()->signals.push_back(tokens.at(token));
}

void RankBuilder::addForward(int64_t chunk) {
  begin(numbered("forward", chunk));
  int64_t s = stage(chunk);
  std::string inbox = numbered("act", s), outbox = numbered("act", s + 1);
  uint32_t input = argument(isFirst(chunk) ? "ids" : inbox), weight = argument(numbered("w", chunk));
  uint32_t h = temporary(), reduced = temporary();
  launch("embed", {input, weight}, {h});
  if (!isFirst(chunk)) {
    waitFor(inbox + "/full", 0);
    signal(inbox + "/empty");
  }
  allReduce(0, h, reduced);
  launch("keep", {layers(reduced, shape.layers)}, {resultOf(numbered("kept", chunk))});
  if (isLast(chunk))
    return;
  launch("output", {reduced, h}, {resultOf(outbox)});
  waitFor(outbox + "/empty", function().instructions.size() - 1);
  signal(outbox + "/full");
}

void RankBuilder::addBackward(int64_t chunk) {
  begin(numbered("backward", chunk));
  int64_t s = stage(chunk);
  std::string inbox = numbered("dact", s + 1), outbox = numbered("dact", s);
  uint32_t kept = argument(numbered("kept", chunk)), weight = argument(numbered("w", chunk));
  uint32_t seed = argument(isLast(chunk) ? "target" : inbox), d = temporary(), sum = temporary();
  launch("seed", {seed, kept, weight}, {d});
  if (!isLast(chunk)) {
    waitFor(inbox + "/full", 0);
    signal(inbox + "/empty");
  }
  if (isLast(chunk))
    launch("loss", {argument("loss"), seed}, {resultOf("loss")});
  allReduce(0, d, sum);
  uint32_t end = layers(sum, 2 * shape.layers);
  launch("dw", {argument(numbered("g", chunk)), end, kept}, {resultOf(numbered("g", chunk))});
  if (isFirst(chunk))
    return;
  launch("dx", {end, weight}, {resultOf(outbox)});
  waitFor(outbox + "/empty", function().instructions.size() - 1);
  signal(outbox + "/full");
}

void RankBuilder::addInputGrad(int64_t chunk) {
  begin(numbered("input_grad", chunk));
  int64_t s = stage(chunk);
  std::string inbox = numbered("dact", s + 1), outbox = numbered("dact", s);
  uint32_t kept = argument(numbered("kept", chunk)), weight = argument(numbered("w", chunk));
  uint32_t seed = argument(isLast(chunk) ? "target" : inbox), d = temporary();
  launch("seed", {seed, kept, weight}, {d});
  if (!isLast(chunk)) {
    waitFor(inbox + "/full", 0);
    signal(inbox + "/empty");
  } else {
    launch("loss", {argument("loss"), seed}, {resultOf("loss")});
  }
  uint32_t end = layers(d, shape.layers);
  launch("keep", {end}, {resultOf(numbered("dkept", chunk))});
  if (isFirst(chunk))
    return;
  launch("dx", {end, weight}, {resultOf(outbox)});
  waitFor(outbox + "/empty", function().instructions.size() - 1);
  signal(outbox + "/full");
}

void RankBuilder::addWeightGrad(int64_t chunk) {
  begin(numbered("weight_grad", chunk));
  uint32_t kept = argument(numbered("kept", chunk)), d = argument(numbered("dkept", chunk));
  launch("dw", {argument(numbered("g", chunk)), layers(d, shape.layers), kept},
         {resultOf(numbered("g", chunk))});
}

void RankBuilder::addClear() {
  begin("clear");
  auto clear = [&](const std::string &name) {
    uint32_t value = resultOf(name);
    fbs::ZeroT op;
    op.target = std::make_unique<fbs::Ref>(function().values[value].ref());
    op.bytes = kBytes;
    auto instruction = std::make_unique<fbs::InstructionT>();
    instruction->name = "zero";
    instruction->writes = {value};
    instruction->op.Set(std::move(op));
    function().instructions.push_back(std::move(instruction));
  };
  for (int64_t chunk = 0; chunk < shape.schedule.chunks; ++chunk)
    clear(numbered("g", chunk));
  if (bindings.contains("loss"))
    clear("loss");
}

void RankBuilder::addUpdate() {
  begin("update");
  std::vector<uint32_t> gradients;
  for (int64_t chunk = 0; chunk < shape.schedule.chunks; ++chunk)
    gradients.push_back(argument(numbered("g", chunk)));
  uint32_t own = temporary(), norm = resultOf("norm");
  launch("square", gradients, {own});
  allReduce(1, own, norm);
  uint32_t rate = argument("lr"), number = argument("step");
  for (int64_t chunk = 0; chunk < shape.schedule.chunks; ++chunk) {
    std::string w = numbered("w", chunk), m = numbered("m", chunk);
    launch("adam", {argument(w), argument(m), gradients[chunk], norm, rate, number},
           {resultOf(w), resultOf(m)});
  }
}

void RankBuilder::call(const std::string &name, int64_t microbatch, int64_t slot) {
  if (!functions.contains(name))
    return;
  uint32_t place = microbatch % kPlaces;
  program->schedule.push_back(
      fbs::Call(functions.at(name), microbatch, slot, place, place));
}

void RankBuilder::addSchedule() {
  call("clear");
  for (const schedule::Call &next : schedule.calls[rank]) {
    auto one = [&](const std::string &name) {
      call(numbered(name, next.chunk), next.microbatch, next.slot);
    };
    if (next.pass == schedule::Pass::WeightGrad) {
      one("weight_grad");
      continue;
    }
    bool forward = next.pass == schedule::Pass::Forward;
    one(forward ? "receive_forward" : "receive_backward");
    one(forward ? "forward"
                : (next.pass == schedule::Pass::Backward ? "backward" : "input_grad"));
    one(forward ? "send_forward" : "send_backward");
  }
  call("update");
}

} // namespace

std::vector<Role> Programs::roles() const {
  std::vector<Role> result;
  for (size_t i = 0; i < programs.size(); ++i)
    result.push_back({programs[i].get(), ranks[i]});
  return result;
}

uint32_t Programs::functionIndex(size_t role, const std::string &name) const {
  const auto &functions = programs[role]->functions;
  auto it = std::ranges::find_if(functions, [&](const auto &f) { return f->name == name; });
  if (it == functions.end())
    throw std::runtime_error("no function " + name);
  return it - functions.begin();
}

fbs::FunctionT &Programs::function(size_t role, const std::string &name) {
  return *programs[role]->functions[functionIndex(role, name)];
}

size_t Programs::callIndex(size_t role, const std::string &name, size_t n) const {
  uint32_t function = functionIndex(role, name);
  const auto &schedule = programs[role]->schedule;
  for (size_t i = 0; i < schedule.size(); ++i)
    if (schedule[i].function() == function && n-- == 0)
      return i;
  throw std::runtime_error("no such call of " + name);
}

Programs makePipeline(const PipelineShape &shape) {
  auto schedule = schedule::makeSchedule(shape.schedule);
  if (!schedule)
    throw std::runtime_error(schedule::unsupported(shape.schedule));
  Programs result;
  for (int64_t rank = 0; rank < shape.schedule.ranks; ++rank) {
    result.programs.push_back(RankBuilder(shape, *schedule, rank).build());
    auto &ranks = result.ranks.emplace_back(shape.ranksPerStage);
    std::iota(ranks.begin(), ranks.end(), rank * shape.ranksPerStage);
  }
  return result;
}

Programs copy(const Programs &programs) {
  Programs result;
  for (const auto &program : programs.programs)
    result.programs.push_back(std::make_unique<fbs::ProgramT>(*program));
  result.ranks = programs.ranks;
  return result;
}

} // namespace dtc::replay::test
