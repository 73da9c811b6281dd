#include "Instructions.h"

#include "dtc/Dialect/Dist/Groups.h"
#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;
namespace fbs = dtc::rt::fbs;

namespace dtc::lower {
namespace {

std::unique_ptr<fbs::Ref> own(const fbs::Ref &ref) { return std::make_unique<fbs::Ref>(ref); }

/// The name of the source op, for traces.
std::string nameOf(Operation *op) {
  Location loc = op->getLoc();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    if (!fused.getLocations().empty())
      loc = fused.getLocations().front();
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  return op->getName().getStringRef().str();
}

/// Iterations that a thread should at least get: fewer cost more to hand out
/// than to do.
uint64_t grainOf(exec::LaunchOp op) {
  constexpr uint64_t kBytesPerPiece = 32768;
  uint64_t bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += bytesOf(type);
  for (Type type : op->getResultTypes())
    bytes += bytesOf(type);
  uint64_t extent = std::max<uint64_t>(op.getExtent(), 1);
  uint64_t perIteration = std::max<uint64_t>(bytes / extent, 1);
  return std::max<uint64_t>((kBytesPerPiece + perIteration - 1) / perIteration, 1);
}

std::optional<fbs::ReduceKind> reduceKindOf(graph::ReduceKind kind) {
  switch (kind) {
  case graph::ReduceKind::Sum:
    return fbs::ReduceKind::Sum;
  case graph::ReduceKind::Max:
    return fbs::ReduceKind::Max;
  case graph::ReduceKind::Min:
    return fbs::ReduceKind::Min;
  default:
    return std::nullopt;
  }
}

/// Fills in what is particular to each kind of collective.
LogicalResult fillCollective(Operation *op, fbs::CollectiveT &call) {
  std::optional<graph::ReduceKind> reduce;
  if (auto all = dyn_cast<dist::AllReduceOp>(op)) {
    call.kind = fbs::CollectiveKind::AllReduce;
    reduce = all.getKind();
  } else if (isa<dist::StageSumOp>(op)) {
    call.kind = fbs::CollectiveKind::AllReduce;
    reduce = graph::ReduceKind::Sum;
  } else if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
    call.kind = fbs::CollectiveKind::AllGather;
    call.dim = gather.getDim();
  } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    call.kind = fbs::CollectiveKind::ReduceScatter;
    call.dim = scatter.getDim();
    reduce = scatter.getKind();
  } else if (auto exchange = dyn_cast<dist::AllToAllOp>(op)) {
    call.kind = fbs::CollectiveKind::AllToAll;
    call.dim = exchange.getSplitDim();
    call.concat_dim = exchange.getConcatDim();
  } else if (auto permute = dyn_cast<dist::PermuteOp>(op)) {
    call.kind = fbs::CollectiveKind::Permute;
    call.sources.assign(permute.getSources().begin(), permute.getSources().end());
  } else {
    call.kind = fbs::CollectiveKind::Slice;
    call.dim = cast<dist::SliceOp>(op).getDim();
  }
  if (!reduce)
    return success();
  std::optional<fbs::ReduceKind> kind = reduceKindOf(*reduce);
  if (!kind)
    return op->emitError("no collective reduces like this: ")
           << graph::stringifyReduceKind(*reduce);
  call.reduce = *kind;
  return success();
}

} // namespace

uint8_t ProgramTables::queue(const exec::Queue &queue) {
  auto found = llvm::find(queues, queue);
  constexpr size_t kMostQueues = 12; // each has a stream or a thread
  if (found == queues.end() && queues.size() >= kMostQueues)
    found = llvm::find_if(queues, [&](const exec::Queue &each) { return each.kind == queue.kind; });
  if (found == queues.end())
    found = queues.insert(queues.end(), queue);
  return static_cast<uint8_t>(found - queues.begin());
}

uint32_t ProgramTables::peerList(ArrayRef<int32_t> ranks) {
  auto found = llvm::find_if(peers, [&](const auto &list) { return ArrayRef(list) == ranks; });
  if (found == peers.end())
    found = peers.insert(peers.end(), ranks.vec());
  return static_cast<uint32_t>(found - peers.begin());
}

FunctionTranslator::FunctionTranslator(func::FuncOp function, const HomeTable &homes,
                                       const EvaluatedOps &evaluated, const sharding::Mesh &mesh,
                                       ProgramTables &tables,
                                       const llvm::StringMap<ProgramKernel> &kernels)
    : function(function), homes(homes), evaluated(evaluated), mesh(mesh), tables(tables),
      kernels(kernels), result(std::make_unique<fbs::FunctionT>()) {
  bool takesAll = !graph::runsPerMicrobatch(function);
  for (const Home &home : homes.getHomes())
    if (movesWithCall(home) && !(takesAll && home.scope() == Scope::Microbatch))
      moving.push_back(&home);
}

std::unique_ptr<fbs::FunctionT> FunctionTranslator::translate() {
  result->name = function.getSymName().str();
  result->per_microbatch = graph::runsPerMicrobatch(function);
  if (failed(enterArguments()))
    return nullptr;
  for (Operation &op : function.getBody().front().without_terminator())
    if (failed(translateOp(&op)))
      return nullptr;
  enterResults();
  return std::move(result);
}

LogicalResult FunctionTranslator::enterArguments() {
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto offset = function.getArgAttrOfType<IntegerAttr>(number, exec::ExecDialect::kOffsets);
    if (!offset)
      return function.emitError("argument has no place in memory: ") << number;
    size_t home = homes.find(graph::getArgRole(function, number));
    enterValue(argument, offset.getInt(), homes.getHomes()[home].space);
    result->arguments.push_back(
        fbs::BoundValue(values.at(argument), static_cast<uint32_t>(home)));
  }
  return success();
}

void FunctionTranslator::enterResults() {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    auto home = static_cast<uint32_t>(homes.find(graph::getResultRole(function, i)));
    result->results.push_back(fbs::BoundValue(values.at(value), home));
  }
}

void FunctionTranslator::enterValue(Value value, uint64_t offset, exec::Space space) {
  if (Value root = exec::bufferRoot(value); root != value) {
    values[value] = values.at(root);
    return;
  }
  if (exec::joinOf(value.getDefiningOp()))
    return; // entered with the first of its parts
  if (graph::ConcatOp join = exec::joinedInto(value)) {
    auto [known, isFirst] = values.try_emplace(join.getResult(), result->values.size());
    const uint32_t whole = known->second;
    if (isFirst)
      result->values.push_back(
          fbs::Value(refAt(offset - bytesInto(value), space), bytesOf(join.getType())));
    values[value] = whole;
    return;
  }
  values[value] = static_cast<uint32_t>(result->values.size());
  result->values.push_back(fbs::Value(refAt(offset, space), bytesOf(value.getType())));
}

fbs::Ref FunctionTranslator::refOf(Value value) const {
  const fbs::Ref &whole = result->values[values.at(value)].ref();
  return {whole.offset() + bytesInto(value), whole.stride(), whole.scope(), whole.space()};
}

std::vector<uint32_t> FunctionTranslator::valuesOf(ValueRange range) const {
  std::vector<uint32_t> indices;
  for (Value value : range)
    indices.push_back(values.at(value));
  return indices;
}

LogicalResult FunctionTranslator::translateOp(Operation *op) {
  auto places = op->getAttrOfType<DenseI64ArrayAttr>(exec::ExecDialect::kOffsets);
  if (!places || places.size() != static_cast<int64_t>(op->getNumResults()))
    return op->emitError("has no place in memory for each result");
  auto copied = dyn_cast<exec::CopyOp>(op);
  auto space = copied && copied.getToHost() ? exec::Space::Host : exec::Space::Device;
  for (OpResult value : op->getResults())
    enterValue(value, places[value.getResultNumber()], space);
  if (auto wait = dyn_cast<exec::WaitOp>(op))
    arrivals.push_back({result->instructions.size(), values.at(wait.getInput())});
  if (exec::isView(op) || exec::isPart(op))
    return success();
  if (auto send = dyn_cast<exec::SendOp>(op))
    return translateMessage(op, fbs::MessageKind::Send, send.getPeers(), send.getChannel());
  if (auto receive = dyn_cast<exec::ReceiveOp>(op))
    return translateMessage(op, fbs::MessageKind::Receive, receive.getPeers(),
                            receive.getChannel());
  if (auto launch = dyn_cast<exec::LaunchOp>(op))
    return translateLaunch(launch);
  if (auto matmul = dyn_cast<exec::MatmulOp>(op))
    return translateMatmul(matmul);
  if (target::isConv(op))
    return translateConv(op);
  if (auto attention = dyn_cast<exec::AttentionOp>(op))
    return translateAttention(attention);
  if (auto index = dyn_cast<dist::AxisIndexOp>(op))
    return translateAxisIndex(index);
  if (isa<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
          dist::PermuteOp, dist::SliceOp, dist::StageSumOp>(op))
    return translateCollective(op);
  if (auto copy = dyn_cast<exec::CopyOp>(op)) {
    fbs::CopyT call;
    call.source = own(refOf(copy.getInput()));
    call.target = own(refOf(copy.getResult()));
    call.bytes = bytesOf(copy.getType());
    append(op, std::move(call));
    return success();
  }
  if (auto zero = dyn_cast<exec::ZeroOp>(op)) {
    fbs::ZeroT call;
    call.target = own(refOf(zero.getResult()));
    call.bytes = bytesOf(zero.getType());
    append(op, std::move(call));
    return success();
  }
  return op->emitError("can't be executed: ") << op->getName();
}

template <typename T> void FunctionTranslator::append(Operation *op, T instruction) {
  auto entry = std::make_unique<fbs::InstructionT>();
  entry->op.Set(std::move(instruction));
  entry->name = nameOf(op);
  entry->queue = tables.queue(exec::Queue::of(op));
  entry->reads = valuesOf(op->getOperands());
  entry->writes = valuesOf(op->getResults());
  entry->training_only = !evaluated.contains(op);
  result->instructions.push_back(std::move(entry));
}

fbs::Ref FunctionTranslator::refAt(uint64_t offset, exec::Space space) const {
  for (const Home *home : moving)
    if (home->space == space && offset >= home->offset && offset < home->end())
      return {offset, home->stride, programScope(home->scope()), programSpace(space)};
  return {offset, 0, fbs::Scope::Step, programSpace(space)};
}

namespace {

/// Sets the scratch fields that several records have.
template <typename T> void setScratch(Operation *op, T &call, uint64_t perUnit) {
  auto place = op->getAttrOfType<DenseI64ArrayAttr>(exec::ExecDialect::kScratch);
  uint64_t offset = place ? place[0] : 0;
  call.scratch = own({offset, 0, fbs::Scope::Step, fbs::Space::Device});
  if constexpr (std::is_same_v<T, fbs::LaunchT>)
    call.scratch_per_thread = perUnit;
  else
    call.scratch_bytes = place ? place[1] : 0;
}

} // namespace

LogicalResult FunctionTranslator::translateLaunch(exec::LaunchOp op) {
  auto kernel = kernels.find(op.getKernel());
  if (kernel == kernels.end())
    return op.emitError("kernel is not declared: ") << op.getKernel();
  fbs::LaunchT call;
  call.kernel = kernel->second.index;
  for (Value operand : op->getOperands())
    call.args.push_back(refOf(operand));
  for (Value value : op->getResults())
    call.args.push_back(refOf(value));
  call.extent = op.getExtent();
  if (kernel->second.geometry)
    call.geometry = std::make_unique<fbs::Geometry>(*kernel->second.geometry);
  else
    call.grain = grainOf(op);
  call.in_place.assign(op.getInPlace().begin(), op.getInPlace().end());
  setScratch(op, call, kernel->second.scratchBytes);
  append(op, std::move(call));
  return success();
}

/// Where an element of a value lies.
fbs::Ref FunctionTranslator::shifted(Value value, int64_t elements) const {
  uint64_t size = cast<RankedTensorType>(value.getType()).getElementTypeBitWidth() / 8;
  fbs::Ref base = refOf(value);
  return {base.offset() + elements * size, base.stride(), base.scope(), base.space()};
}

LogicalResult FunctionTranslator::translateMatmul(exec::MatmulOp op) {
  fbs::MatmulT call = target::matmulRecord(op);
  call.a->ref = own(shifted(op.getLhs(), op.getOffsets()[0]));
  call.b->ref = own(shifted(op.getRhs(), op.getOffsets()[1]));
  call.c->ref = own(refOf(op.getResult()));
  using enum fbs::Epilogue;
  if (op.addsExtra())
    call.addend = own(refOf(op.getExtra()));
  else if (op.getExtra())
    (call.epilogue == GeluGrad ? call.matrix : call.vector) = own(refOf(op.getExtra()));
  const bool sums = call.epilogue == SumA || call.epilogue == SumB;
  if (op.getAlso())
    (sums ? call.vector : call.matrix) = own(refOf(op.getAlso()));
  setScratch(op, call, 0);
  append(op, std::move(call));
  return success();
}

LogicalResult FunctionTranslator::translateConv(Operation *op) {
  Value first = op->getOperand(0), second = op->getOperand(1), value = op->getResult(0);
  Value input = first, weight = second, output = value;
  if (isa<graph::ConvInputGradOp>(op)) {
    input = value;
    output = first;
  } else if (isa<graph::ConvWeightGradOp, exec::ConvWeightGradOp>(op)) {
    weight = value;
    output = second;
  }
  fbs::ConvT call = target::convRecord(op);
  call.input->ref = own(refOf(input));
  call.weight->ref = own(refOf(weight));
  call.output->ref = own(refOf(output));
  if (auto sum = dyn_cast<exec::ConvWeightGradOp>(op))
    call.addend = own(refOf(sum.getBefore()));
  setScratch(op, call, 0);
  append(op, std::move(call));
  return success();
}

LogicalResult FunctionTranslator::translateAttention(exec::AttentionOp op) {
  fbs::AttentionT call = target::attentionRecord(op);
  for (auto [record, tensor] : llvm::zip_equal(call.tensors, target::attentionTensors(op)))
    record->ref = own(shifted(op.valueOf(tensor), op.placeOf(tensor).getOffset()));
  setScratch(op, call, 0);
  append(op, std::move(call));
  // What lies in one value is computed by as many writes to it.
  std::vector<uint32_t> &writes = result->instructions.back()->writes;
  writes.clear();
  for (int64_t into : op.getInto())
    writes.push_back(values.at(op.getResult(into)));
  return success();
}

/// Ranks at the same position of several stages, or at positions that differ along the op's axes.
/// Where stages have meshes of their own it is all of their ranks.
static std::vector<std::vector<int32_t>> ranksOf(dist::StageSumOp op, const sharding::Mesh &mesh) {
  auto declared = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(op, op.getMeshAttr());
  auto devices = declared->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
  sharding::AxisList axes;
  if (op.getAxesAttr())
    axes = *dist::toAxes(op.getAxesAttr(), mesh);
  std::vector<std::vector<int32_t>> lists;
  auto devicesOf = [&](int64_t stage) {
    return cast<DenseI64ArrayAttr>(devices[stage]).asArrayRef();
  };
  if (op.getApart()) {
    std::vector<int32_t> &all = lists.emplace_back();
    for (int64_t stage : op.getStages())
      llvm::append_range(all, devicesOf(stage));
    return lists;
  }
  for (int64_t position = 0; position < mesh.devices(); ++position) {
    std::vector<int64_t> group = mesh.group(position, axes);
    if (group.front() != position)
      continue;
    std::vector<int32_t> &list = lists.emplace_back();
    for (int64_t stage : op.getStages())
      for (int64_t member : group)
        list.push_back(static_cast<int32_t>(devicesOf(stage)[member]));
  }
  return lists;
}

FailureOr<uint32_t> FunctionTranslator::groupOf(Operation *op) {
  if (auto sum = dyn_cast<dist::StageSumOp>(op))
    return tables.groups.find(ranksOf(sum, mesh));
  std::optional<sharding::AxisList> axes = dist::toAxes(dist::axesOf(op), mesh);
  if (!axes)
    return op->emitError("names an axis that the mesh lacks");
  return tables.groups.find(*axes);
}

LogicalResult FunctionTranslator::translateCollective(Operation *op) {
  fbs::CollectiveT call;
  FailureOr<uint32_t> group = groupOf(op);
  if (failed(group) || failed(fillCollective(op, call)))
    return failure();
  call.group = *group;
  for (auto [operand, value] : llvm::zip_equal(op->getOperands(), op->getResults())) {
    auto type = cast<RankedTensorType>(operand.getType());
    std::optional<fbs::DType> dtype = target::dtypeOf(type.getElementType());
    if (!dtype)
      return op->emitError("no collective moves this element type: ") << type.getElementType();
    call.dtype = *dtype;
    auto entry = std::make_unique<fbs::CollectiveOperandT>();
    entry->source = own(refOf(operand));
    entry->target = own(refOf(value));
    entry->shape.assign(type.getShape().begin(), type.getShape().end());
    call.operands.push_back(std::move(entry));
  }
  append(op, std::move(call));
  return success();
}

LogicalResult FunctionTranslator::translateMessage(Operation *op, fbs::MessageKind kind,
                                                   ArrayRef<int32_t> peers, int64_t channel) {
  if (static_cast<int64_t>(peers.size()) != mesh.devices())
    return op->emitError("needs a peer for each of ")
           << mesh.devices() << " ranks, got: " << peers.size();
  fbs::MessageT call;
  call.kind = kind;
  call.peers = tables.peerList(peers);
  call.channel = static_cast<uint32_t>(channel);
  for (Value value : kind == fbs::MessageKind::Send ? ValueRange(op->getOperands())
                                                    : ValueRange(op->getResults()))
    call.buffers.push_back(fbs::MessageBuffer(refOf(value), bytesOf(value.getType())));
  append(op, std::move(call));
  return success();
}

LogicalResult FunctionTranslator::translateAxisIndex(dist::AxisIndexOp op) {
  FailureOr<uint32_t> group = groupOf(op);
  if (failed(group))
    return failure();
  fbs::GroupPositionT call;
  call.group = *group;
  call.target = own(refOf(op.getResult()));
  append(op, std::move(call));
  return success();
}

} // namespace dtc::lower
