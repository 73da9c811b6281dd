#include "ProgramChecker.h"

#include <algorithm>
#include <set>

namespace dtc::rt {
namespace {

constexpr int64_t kMostRanks = 1 << 20;
constexpr uint64_t kMostArenaBytes = uint64_t(1) << 47;

std::string nameOf(const fbs::Instruction &instruction) {
  return instruction.name() ? instruction.name()->str() : fbs::EnumNameOp(instruction.op_type());
}

} // namespace

std::string ProgramChecker::run() {
  for (auto step :
       {&ProgramChecker::checkHeader, &ProgramChecker::checkMesh, &ProgramChecker::checkGroups,
        &ProgramChecker::checkPeers, &ProgramChecker::checkQueues, &ProgramChecker::checkSchedule,
        &ProgramChecker::checkFunctions, &ProgramChecker::checkBindings})
    if (Text wrong = (this->*step)(); !wrong.empty())
      return wrong;
  return {};
}

std::string ProgramChecker::checkHeader() {
  if (program.threads() != static_cast<uint64_t>(manifest.threadsPerRank))
    return "it is for another number of threads: " + std::to_string(program.threads());
  if (program.num_microbatches() == 0 ||
      manifest.computedSamples() % program.num_microbatches() != 0)
    return "its microbatches do not divide the global batch: " +
           std::to_string(program.num_microbatches());
  for (uint64_t bytes : {program.arena_bytes(), program.host_arena_bytes()})
    if (bytes > kMostArenaBytes)
      return "impossible arena: " + std::to_string(bytes);
  return {};
}

std::string ProgramChecker::checkMesh() {
  std::set<std::string> names;
  int64_t ranks = 1;
  for (const fbs::MeshAxis *axis : *program.mesh_axes()) {
    if (axis->size() < 1 || axis->size() > kMostRanks || (ranks *= axis->size()) > kMostRanks)
      return "impossible size of a mesh axis: " + std::to_string(axis->size());
    if (!names.insert(axis->name()->str()).second)
      return "has two mesh axes named: " + axis->name()->str();
  }
  if (ranks != static_cast<int64_t>(role.ranks.size()))
    return "its mesh is not of the role's size: " + std::to_string(ranks);
  mesh = meshOf(program);
  return {};
}

std::string ProgramChecker::checkGroups() {
  for (const fbs::Group *group : *program.groups())
    if (Text wrong = checkGroup(*group); !wrong.empty())
      return "a group " + wrong;
  return {};
}

std::string ProgramChecker::checkGroup(const fbs::Group &group) const {
  std::vector<bool> listed(static_cast<size_t>(manifest.worldSize), false);
  for (const fbs::RankList *list : *group.lists()) {
    if (list->ranks()->size() == 0 ||
        list->ranks()->size() != group.lists()->Get(0)->ranks()->size())
      return "has lists of different lengths: " + std::to_string(list->ranks()->size());
    for (int32_t rank : *list->ranks()) {
      if (rank < 0 || rank >= manifest.worldSize || listed[rank])
        return "has an unknown or repeated rank: " + std::to_string(rank);
      listed[rank] = true;
    }
  }
  for (int rank : role.ranks)
    if (!listed[rank])
      return "lacks a rank of the role: " + std::to_string(rank);
  return {};
}

std::string ProgramChecker::checkPeers() {
  for (const fbs::RankList *list : *program.peers()) {
    if (list->ranks()->size() != role.ranks.size())
      return "a list of peers is not of the role's size: " + std::to_string(list->ranks()->size());
    for (uint32_t position = 0; position < list->ranks()->size(); ++position)
      if (int32_t peer = list->ranks()->Get(position);
          peer < -1 || peer >= manifest.worldSize || peer == role.ranks[position])
        return "a peer is no other rank of the world: " + std::to_string(peer);
  }
  return {};
}

std::string ProgramChecker::checkQueues() {
  if (program.queues()->size() == 0 || program.queues()->size() > 256 ||
      program.queues()->Get(0)->kind() != fbs::QueueKind::Compute)
    return "its first queue does not compute";
  std::set<std::string> names;
  for (const fbs::Queue *queue : *program.queues()) {
    if (queue->kind() > fbs::QueueKind::MAX)
      return "unknown kind of queue: " + queue->name()->str();
    if (!names.insert(queue->name()->str()).second)
      return "has two queues named: " + queue->name()->str();
  }
  for (uint32_t i = 0; program.tokens() && i < program.tokens()->size(); ++i)
    if (static_cast<int>(program.tokens()->Get(i)) > static_cast<int>(fbs::Scope::MAX))
      return "unknown scope of a token: " + std::to_string(i);
  return {};
}

std::string ProgramChecker::checkSchedule() {
  called.assign(program.functions()->size(), Numbers{});
  for (const fbs::Call *call : *program.schedule()) {
    if (call->function() >= program.functions()->size())
      return "the schedule calls a function that does not exist: " +
             std::to_string(call->function());
    if (call->microbatch() >= program.num_microbatches())
      return "the schedule has an impossible microbatch: " + std::to_string(call->microbatch());
    Numbers &most = called[call->function()];
    for (size_t scope = 0; scope < most.size(); ++scope)
      most[scope] =
          std::max<uint64_t>(most[scope], numberOf(*call, static_cast<fbs::Scope>(scope)));
  }
  return {};
}

std::string ProgramChecker::checkRef(const fbs::Ref *ref, uint64_t bytes,
                                     uint64_t alignment) const {
  if (!ref)
    return "a reference is missing";
  if (ref->scope() > fbs::Scope::MAX || ref->space() > fbs::Space::MAX)
    return "unknown kind of reference";
  uint64_t distance = 0;
  if (ref->scope() != fbs::Scope::Step &&
      (ref->stride() % alignment != 0 ||
       __builtin_mul_overflow((*numbers)[static_cast<size_t>(ref->scope())], ref->stride(),
                              &distance)))
    return "impossible stride: " + std::to_string(ref->stride());
  bool host = ref->space() == fbs::Space::Host;
  uint64_t end, arena = host ? program.host_arena_bytes() : program.arena_bytes();
  if (__builtin_add_overflow(ref->offset(), distance, &end) ||
      __builtin_add_overflow(end, bytes, &end) || end > arena)
    return "reaches out of the arena: offset " + std::to_string(ref->offset());
  if (ref->offset() % alignment != 0)
    return "is not aligned: offset " + std::to_string(ref->offset());
  return {};
}

std::string ProgramChecker::checkIndices(const Vector<uint32_t> *indices, size_t count,
                                         const char *what) const {
  for (uint32_t i = 0; indices && i < indices->size(); ++i)
    if (indices->Get(i) >= count)
      return std::string("has no such ") + what + ": " + std::to_string(indices->Get(i));
  return {};
}

std::string ProgramChecker::checkFunctions() {
  for (uint32_t i = 0; i < program.functions()->size(); ++i) {
    const fbs::Function &function = *program.functions()->Get(i);
    numbers = &called[i];
    if (Text wrong = checkFunction(function); !wrong.empty())
      return function.name()->str() + ": " + wrong;
  }
  return {};
}

std::string ProgramChecker::checkFunction(const fbs::Function &function) const {
  if (Text wrong = checkValues(function); !wrong.empty())
    return wrong;
  for (const fbs::Instruction *instruction : *function.instructions())
    if (Text wrong = checkInstruction(function, *instruction); !wrong.empty())
      return nameOf(*instruction) + ": " + wrong;
  return {};
}

std::string ProgramChecker::checkValues(const fbs::Function &function) const {
  for (const fbs::Value *value : *function.values())
    if (Text wrong = checkRef(&value->ref(), value->bytes()); !wrong.empty())
      return "a value " + wrong;
  for (const auto *list : {function.arguments(), function.results()})
    for (const fbs::BoundValue *bound : *list)
      if (bound->value() >= function.values()->size() ||
          bound->binding() >= program.bindings()->size())
        return "an argument or result is no value or has no binding: " +
               std::to_string(bound->value());
  return {};
}

std::string ProgramChecker::checkInstruction(const fbs::Function &function,
                                             const fbs::Instruction &instruction) const {
  if (instruction.queue() >= program.queues()->size())
    return "has no such queue: " + std::to_string(instruction.queue());
  size_t tokens = program.tokens() ? program.tokens()->size() : 0;
  for (const auto *list : {instruction.waits(), instruction.signals()})
    if (Text wrong = checkIndices(list, tokens, "token"); !wrong.empty())
      return wrong;
  for (const auto *list : {instruction.reads(), instruction.writes()})
    if (Text wrong = checkIndices(list, function.values()->size(), "value"); !wrong.empty())
      return wrong;
  return checkOp(instruction);
}

} // namespace dtc::rt
