#include "RankStep.h"

#include "ApartRanks.h"
#include "Evaluator.h"
#include "JoinRanks.h"

#include "dtc/Dialect/Dist/StageOps.h"

using namespace mlir;

namespace dtc::interpreter {

using graph::RoleAttr;
using graph::RoleKind;

FailureOr<RankStep> RankStep::build(ModuleOp local, Decompositions &decompositions) {
  RankStep step;
  step.decompositions = &decompositions;
  llvm::append_range(step.modules, local.getOps<ModuleOp>());
  if (step.modules.empty())
    step.modules.push_back(local);
  for (ModuleOp module : step.modules) {
    auto meshes = module.getOps<dist::MeshOp>();
    if (meshes.empty())
      return module.emitError() << "has no mesh";
    auto rank = step.meshes.size();
    step.meshes.push_back(dist::toMesh(*meshes.begin()));
    auto devices = (*meshes.begin())->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
    step.worlds.emplace_back();
    if (devices && rank < devices.size()) // rank r has stage r
      llvm::append_range(step.worlds.back(), cast<DenseI64ArrayAttr>(devices[rank]).asArrayRef());
  }
  return step;
}

bool RankStep::areApart(ArrayRef<Member> members) const {
  return llvm::any_of(members, [&](const Member &member) {
    auto sums = func::FuncOp(member.function).front().getOps<dist::StageSumOp>();
    return meshes[member.rank] != meshes.front() ||
           llvm::any_of(sums, [](dist::StageSumOp sum) { return sum.getApart(); });
  });
}

int64_t RankStep::devices() const {
  int64_t count = 0;
  for (const sharding::Mesh &mesh : meshes)
    count += mesh.devices();
  return count;
}

FailureOr<RankStorage> RankStep::storageOf(const Member &member, DictionaryAttr attributes) const {
  std::optional<RankStorage> storage = RankStorage::of(attributes, meshes[member.rank]);
  if (!storage)
    return func::FuncOp(member.function).emitError()
           << "has an argument or result without a sharding";
  return *storage;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

FailureOr<RankShards> RankStep::divided(const Member &member, unsigned index,
                                        const Wholes &wholes) {
  func::FuncOp function = member.function;
  RoleAttr role = graph::getArgRole(function, index);
  auto storage = storageOf(member, function.getArgAttrDict(index));
  if (failed(storage))
    return failure();
  const sharding::Mesh &mesh = meshes[member.rank];
  auto whole = wholes.find(keyOf(role));
  if (whole == wholes.end())
    return function.emitError() << "argument " << index << " is nothing that one rank has: "
                                << describe(keyOf(role), false);
  std::string wrong = storage->sharding.check(whole->second.shape().vec(), mesh);
  if (!wrong.empty())
    return function.emitError() << "argument " << index << ": " << wrong;
  auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
  return RankShards{storage->divide(whole->second, type, mesh), *storage};
}

FailureOr<RankShards> RankStep::argument(const Member &member, unsigned index,
                                         const Wholes &wholes) {
  func::FuncOp function = member.function;
  RoleAttr role = graph::getArgRole(function, index);
  if (!role)
    return function.emitError() << "argument " << index << " has no role";
  std::string name = role.getName().str();
  if (role.getKind() == RoleKind::Kept)
    return kept.at({member.rank, name});
  if (isData(role.getKind()))
    return divided(member, index, wholes);
  if (auto own = delivered(member, index))
    return RankShards{std::move(*own), {}};
  auto storage = storageOf(member, function.getArgAttrDict(index));
  if (failed(storage))
    return failure();
  Key key = keyOf(role);
  const RankShards *found = nullptr;
  if (role.getKind() == RoleKind::Inbox) {
    found = &messages.at(name);
  } else if (auto ranks = held.find(key); ranks != held.end()) {
    auto own = ranks->second.find({member.rank, name});
    found = own == ranks->second.end() ? nullptr : &own->second;
  }
  if (found && !(found->storage == *storage))
    return function.emitError() << "argument " << index << " is laid out otherwise than '" << name
                                << "' was left";
  if (found)
    return *found;
  if (computed.contains(key))
    return function.emitError() << "takes what other ranks of the pipeline have alone: "
                                << describe(key, false);
  FailureOr<RankShards> value = divided(member, index, wholes);
  if (succeeded(value))
    held[key].insert_or_assign({member.rank, name}, *value);
  return value;
}

LogicalResult RankStep::take(const Member &member, const Wholes &wholes,
                             std::vector<Tensors> &inputs) {
  for (unsigned i = 0; i < func::FuncOp(member.function).getNumArguments(); ++i) {
    FailureOr<RankShards> value = argument(member, i, wholes);
    if (failed(value))
      return failure();
    for (auto [device, shard] : llvm::zip_equal(inputs, value->shards))
      device.push_back(std::move(shard));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static bool takes(func::FuncOp function, RoleAttr role) {
  return llvm::any_of(llvm::seq<unsigned>(0, function.getNumArguments()),
                      [&](unsigned index) { return graph::getArgRole(function, index) == role; });
}

LogicalResult RankStep::keepReturned(const Member &member, unsigned index, RankShards value) {
  func::FuncOp function = member.function;
  RoleAttr role = graph::getResultRole(function, index);
  const Key key = keyOf(role);
  const Holder holder = {member.rank, role.getName().str()};
  ShardsByHolder &ranks = returned[key];
  if (ranks.contains(holder) && !takes(function, role))
    return function.emitError() << "gives what another function of the rank has given: "
                                << describe(key, false);
  held[key].insert_or_assign(holder, value);
  ranks.insert_or_assign(holder, std::move(value));
  return success();
}

LogicalResult RankStep::keep(const Member &member, std::vector<Tensors> &results, size_t first) {
  func::FuncOp function = member.function;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    RoleAttr role = graph::getResultRole(function, i);
    if (!role)
      return function.emitError() << "result " << i << " has no role";
    RankShards value;
    for (Tensors &device : results)
      value.shards.push_back(std::move(device[first + i]));
    std::string name = role.getName().str();
    if (role.getKind() == RoleKind::Kept) {
      kept.insert_or_assign({member.rank, name}, std::move(value));
      continue;
    }
    if (DictionaryAttr attributes = function.getResultAttrDict(i);
        attributes && attributes.contains(dist::crossing::kReceivers)) {
      deliver(member.rank, attributes, value.shards);
      continue;
    }
    auto storage = storageOf(member, function.getResultAttrDict(i));
    if (failed(storage))
      return failure();
    value.storage = *storage;
    if (role.getKind() == RoleKind::Outbox) {
      if (!messages.try_emplace(name, std::move(value)).second)
        return function.emitError() << "sends a message that was sent before: " << name;
    } else if (failed(keepReturned(member, i, std::move(value)))) {
      return failure();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Messages between meshes
//===----------------------------------------------------------------------===//

void RankStep::deliver(int rank, DictionaryAttr attributes, const Tensors &shards) {
  std::string name = attributes.getAs<StringAttr>(dist::crossing::kMessage).str();
  auto lists = attributes.getAs<ArrayAttr>(dist::crossing::kReceivers);
  for (auto list : lists.getAsRange<DenseI32ArrayAttr>())
    for (auto [position, receiver] : llvm::enumerate(list.asArrayRef()))
      if (receiver >= 0)
        pieces[{name, worlds[rank][position], receiver}].push_back(shards[position]);
}

/// The senders of a piece, by position; none for what isn't one.
static ArrayRef<int32_t> sendersOf(DictionaryAttr attributes) {
  auto lists = attributes ? attributes.getAs<ArrayAttr>(dist::crossing::kSenders) : ArrayAttr();
  return lists ? cast<DenseI32ArrayAttr>(lists[0]).asArrayRef() : ArrayRef<int32_t>();
}

std::optional<Tensors> RankStep::delivered(const Member &member, unsigned index) const {
  func::FuncOp function = member.function;
  DictionaryAttr attributes = function.getArgAttrDict(index);
  ArrayRef<int32_t> senders = sendersOf(attributes);
  if (senders.empty())
    return std::nullopt;
  auto message = attributes.getAs<StringAttr>(dist::crossing::kMessage);
  Tensors result;
  for (auto [position, sender] : llvm::enumerate(senders)) {
    size_t before = 0; // pieces from the same sender
    for (unsigned i = 0; i < index; ++i)
      if (DictionaryAttr other = function.getArgAttrDict(i);
          !sendersOf(other).empty() && other.getAs<StringAttr>(dist::crossing::kMessage) == message)
        before += sendersOf(other)[position] == sender;
    auto found = pieces.find({message.str(), sender, worlds[member.rank][position]});
    if (found == pieces.end() || found->second.size() <= before)
      return std::nullopt;
    result.push_back(found->second[before]);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

bool RankStep::isReady(const Member &member) const {
  func::FuncOp function = member.function;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    RoleAttr role = graph::getArgRole(function, i);
    if (!role)
      continue; // refused when it is called
    if (!sendersOf(function.getArgAttrDict(i)).empty()) {
      if (!delivered(member, i))
        return false;
      continue;
    }
    std::string name = role.getName().str();
    if ((role.getKind() == RoleKind::Kept && !kept.contains({member.rank, name})) ||
        (role.getKind() == RoleKind::Inbox && !messages.contains(name)))
      return false;
  }
  return true;
}

LogicalResult RankStep::call(const Member &member, const Wholes &wholes) {
  const sharding::Mesh &mesh = meshes[member.rank];
  std::vector<Tensors> inputs(mesh.devices());
  if (failed(take(member, wholes, inputs)))
    return failure();
  auto results = evaluateRanks(member.function, mesh, inputs, Numerics::Double, *decompositions);
  return failed(results) ? failure() : keep(member, *results, 0);
}

void RankStep::beginCall() {
  for (const auto &[key, ranks] : returned)
    computed.insert(key);
  returned.clear();
}

LogicalResult RankStep::callPasses(StringRef wholeName, const Wholes &wholes) {
  beginCall();
  SmallVector<Member> waiting;
  for (auto [rank, module] : llvm::enumerate(modules))
    for (auto function : module.getOps<func::FuncOp>())
      if (graph::runsPerMicrobatch(function) || function.getSymName() == wholeName)
        waiting.push_back({static_cast<int>(rank), function});
  if (waiting.empty())
    return modules.front().emitError() << "has no function that makes a pass of a microbatch";
  while (!waiting.empty()) {
    auto next = llvm::find_if(waiting, [&](const Member &member) { return isReady(member); });
    if (next == waiting.end())
      return waiting.front().function.emitError()
             << "waits for a message that no rank of the pipeline sends";
    Member member = *next;
    waiting.erase(next);
    if (failed(call(member, wholes)))
      return failure();
  }
  kept.clear();
  messages.clear();
  pieces.clear();
  return success();
}

/// Gives each rank other elements of a sum that pends, of which the first had all. So a rank that
/// reads its own term instead of the sum shows, and so does whose infinite elements are lost.
static void spread(Tensors &terms, const sharding::TensorSharding &sharding,
                   const sharding::Mesh &mesh) {
  sharding::AxisList axes;
  for (const sharding::Partial &partial : sharding.partial)
    axes.push_back(partial.axis);
  for (int64_t rank = 0; rank < mesh.devices() && !axes.empty(); ++rank) {
    const std::vector<int64_t> group = mesh.group(rank, axes);
    if (group.front() != rank)
      continue;
    for (size_t i = 0; i < terms[rank].floats.size(); ++i)
      if (const int64_t other = group[i % group.size()]; other != rank)
        std::swap(terms[rank].floats[i], terms[other].floats[i]);
  }
}

void RankStep::replaceGradient(const Key &key, const Tensor &whole) {
  bool isFirst = true;
  for (auto &[holder, value] : held[key]) {
    const sharding::Mesh &mesh = meshes[holder.first];
    const RankedTensorType local = value.shards.front().type;
    value.shards =
        isFirst ? value.storage.divide(whole, local, mesh) : Tensors(mesh.devices(), Tensor(local));
    if (isFirst)
      spread(value.shards, value.storage.sharding, mesh);
    isFirst = false;
  }
}

LogicalResult RankStep::callTogether(StringRef name, const Wholes &wholes) {
  beginCall();
  SmallVector<Member> members;
  SmallVector<func::FuncOp> functions;
  for (auto [rank, module] : llvm::enumerate(modules)) {
    functions.push_back(module.lookupSymbol<func::FuncOp>(name));
    if (functions.back())
      members.push_back({static_cast<int>(rank), functions.back()});
  }
  if (members.empty())
    return modules.front().emitError() << "has no function of this name: " << name;
  if (modules.size() == 1)
    return call(members.front(), wholes);
  if (areApart(members))
    return callApart(members, wholes);
  const sharding::Mesh &mesh = meshes.front();
  auto joined = joinRanks(functions, modules.front().getContext());
  if (failed(joined))
    return failure();
  std::vector<Tensors> inputs(mesh.devices());
  for (const Member &member : members)
    if (failed(take(member, wholes, inputs)))
      return failure();
  auto results = evaluateRanks(**joined, mesh, inputs, Numerics::Double, *decompositions);
  if (failed(results))
    return failure();
  size_t first = 0;
  for (const Member &member : members) {
    if (failed(keep(member, *results, first)))
      return failure();
    first += func::FuncOp(member.function).getNumResults();
  }
  return success();
}

/// With their own meshes.
LogicalResult RankStep::callApart(ArrayRef<Member> members, const Wholes &wholes) {
  std::vector<RankCall> calls;
  for (const Member &member : members) {
    const sharding::Mesh &mesh = meshes[member.rank];
    RankCall &call = calls.emplace_back(
        RankCall{member.rank, member.function, &mesh, std::vector<Tensors>(mesh.devices())});
    if (failed(take(member, wholes, call.inputs)))
      return failure();
  }
  auto results = evaluateApart(std::move(calls), *decompositions);
  if (failed(results))
    return failure();
  for (auto [member, result] : llvm::zip_equal(members, *results))
    if (failed(keep(member, result, 0)))
      return failure();
  return success();
}

} // namespace dtc::interpreter
