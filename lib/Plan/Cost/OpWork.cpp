#include "dtc/Plan/Cost/OpWork.h"

#include "WideCopies.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Plan/AttentionParts.h"
#include "dtc/Plan/Plan/KernelParts.h"
#include "dtc/Sharding/IndexBuckets.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

using sharding::FactorId;
using sharding::Mesh;
using sharding::OpSharding;
using sharding::TensorFactors;
using sharding::TensorSharding;

int64_t localBytes(const Value &value, const TensorSharding &sharding, const Mesh &mesh) {
  int64_t bytes = byteSize(value.type);
  for (size_t dim = 0; dim < value.shape.size(); ++dim)
    bytes *= dim < sharding.dims.size() ? value.shape[dim] / mesh.size(sharding.dims[dim])
                                        : value.shape[dim];
  return bytes;
}

int64_t localBytes(const Value &value, const TensorFactors &tensor, const OpSharding &choice,
                   const Mesh &mesh) {
  int64_t bytes = byteSize(value.type);
  for (size_t dim = 0; dim < value.shape.size(); ++dim) {
    int64_t parts = 1;
    if (dim < tensor.size())
      for (FactorId factor : tensor[dim])
        parts *= mesh.size(choice.factors[factor]);
    bytes *= value.shape[dim] / parts;
  }
  return bytes;
}

int64_t placedBytes(int64_t bytes) {
  constexpr int64_t alignment = 64;
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Of a part of a parameter that takes `bytes` in its type.
static int64_t storedBytes(const Value &parameter, int64_t bytes) {
  if (parameter.storedBits == 0)
    return bytes;
  double elements = double(bytes) / double(byteSize(parameter.type));
  return static_cast<int64_t>(std::ceil(elements * parameter.storedBits / 8));
}

ParameterBytes parameterBytes(const Problem &problem, ValueId value, bool trained,
                              const TensorSharding &sharding, const Mesh &mesh,
                              const Software &software) {
  const Value &parameter = problem.values[value];
  const OptimizerFacts &optimizer = problem.optimizer;
  ParameterBytes bytes;
  int64_t whole = localBytes(parameter, sharding, mesh),
          elements = whole / byteSize(parameter.type);
  bytes.elements = placedBytes(whole) / byteSize(parameter.type);
  bytes.parameter = placedBytes(storedBytes(parameter, whole));
  if (!trained)
    return bytes;
  int64_t gradient = optimizer.gradientBytes ? optimizer.gradientBytes : byteSize(parameter.type);
  bytes.states = optimizer.states * placedBytes(elements * optimizer.stateBytes) +
                 placedBytes(elements * optimizer.masterBytes);
  if (software.halfGradients && gradient > byteSize(parameter.type)) {
    bytes.update = placedBytes(elements * gradient); // the copy
    gradient = byteSize(parameter.type);
  }
  bytes.update += software.updateTemporaries * placedBytes(elements * byteSize(DType::F32));
  if (software.keepsHalfGradients && gradient > byteSize(parameter.type))
    bytes.kept = bytes.parameter;
  bytes.gradient = placedBytes(elements * gradient);
  return bytes;
}

ParameterBytes modelBytes(const Problem &problem, const ProblemFacts &facts,
                          const Software &software) {
  ParameterBytes all;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    if (argument.kind != ValueKind::Parameter)
      continue;
    ParameterBytes one =
        parameterBytes(problem, value, facts.gradientResult[value] >= 0,
                       TensorSharding::replicated(argument.shape.size()), Mesh(), software);
    all.elements += one.elements;
    all.parameter += one.parameter;
    all.gradient += one.gradient;
    all.states += one.states;
    all.kept += one.kept;
    all.update += one.update;
  }
  return all;
}

double localShare(const OpSharding &choice, const Mesh &mesh) {
  double share = 1;
  for (const sharding::AxisList &axes : choice.factors)
    share /= double(mesh.size(axes));
  return share;
}

/// Of the logits of a loss that isn't fused, in f32.
double OpWork::logitBytes(const Op &op) const {
  bool taken = isGpu() && op.kind == OpKind::Loss && !model.getCluster().software.fusedLoss;
  return taken ? 4 * double(problem.values[op.operands[0]].elements()) : 0;
}

/// dtc's own attention keeps scores, in f32. Beside a bias, probabilities don't follow from these
/// and the statistics of rows alone, and are kept as they are read.
static bool keepsProbabilities(const Problem &problem, const Op &op) {
  return op.kind == OpKind::Attention && !op.backward && op.operands.size() > 3 &&
         byteSize(problem.values[op.operands[0]].type) < byteSize(DType::F32);
}

double OpWork::scratchBytes(OpId id) const {
  const Op &op = problem.ops[id];
  if (!isGpu() && keepsProbabilities(problem, op))
    return 0;
  if (!isGpu() || op.kind != OpKind::Attention)
    return op.scratch + (op.backward ? 0 : logitBytes(op));
  if (const std::optional<int> flash = model.getCluster().software.flashAttention)
    return *flash > 0 ? 0 : op.scratch;
  return op.decomposed ? op.scratch : 0;
}

double OpWork::savedBytes(OpId id) const {
  const Op &op = problem.ops[id];
  const Software &software = model.getCluster().software;
  if (op.kind == OpKind::Loss && !op.backward)
    return op.saved + logitBytes(op);
  if (op.kind != OpKind::Attention || op.operands.empty())
    return op.saved;
  double share = double(byteSize(problem.values[op.operands[0]].type)) / 4;
  double probabilities = keepsProbabilities(problem, op) ? share * op.scratch : 0;
  if (!isGpu())
    return op.saved + probabilities;
  if (!software.flashAttention)
    return op.decomposed ? op.saved + probabilities : 0;
  double mask = 0.25; // a byte for each score
  return *software.flashAttention > 0 ? 0
                                      : op.saved * (software.dropout ? 2 * share + mask : share);
}

/// The look-up whose rows a norm takes; -1: it takes something else, or is none.
static OpId normalizedLookup(const Problem &problem, const ProblemFacts &facts, OpId id) {
  const Op &op = problem.ops[id];
  if (op.kind != OpKind::Normalization || op.backward)
    return -1;
  OpId producer = facts.producer[op.operands[0]];
  return producer >= 0 && problem.ops[producer].kind == OpKind::Lookup ? producer : -1;
}

OpId OpWork::dropsOutputOf(OpId id) const {
  const Op &op = problem.ops[id];
  bool isSum = op.kind == OpKind::Elementwise && !op.backward && op.operands.size() == 2 &&
               op.results.size() == 1;
  OpId embedding = normalizedLookup(problem, facts, id);
  if (!isGpu() || !model.getCluster().software.dropout || (!isSum && embedding < 0))
    return -1;
  const std::vector<OpId> &readers = facts.consumers[op.results[0]];
  if (std::none_of(readers.begin(), readers.end(), [&](OpId reader) {
        return problem.ops[reader].kind == OpKind::Normalization && !problem.ops[reader].backward;
      }))
    return -1;
  for (ValueId operand : op.operands) {
    OpId producer = facts.producer[operand];
    if (OpId rows = producer >= 0 ? normalizedLookup(problem, facts, producer) : -1; rows >= 0)
      return rows;
    if (producer >= 0 && isEpilogue(producer))
      for (ValueId inner : problem.ops[producer].operands)
        if (OpId made = facts.producer[inner];
            made >= 0 && problem.ops[made].kind == OpKind::Contraction)
          producer = made;
    if (producer >= 0 && (problem.ops[producer].kind == OpKind::Contraction ||
                          problem.ops[producer].kind == OpKind::Lookup))
      return producer;
  }
  return -1;
}

bool OpWork::isParameter(ValueId value) const {
  while (facts.producer[value] >= 0) {
    const Op &op = problem.ops[facts.producer[value]];
    bool passes =
        op.kind == OpKind::Reindex || op.kind == OpKind::View || op.kind == OpKind::Elementwise;
    if (!passes || op.operands.size() != 1)
      return false;
    value = op.operands[0];
  }
  return problem.values[value].kind == ValueKind::Parameter;
}

bool OpWork::isEpilogue(OpId id) const {
  const Op &op = problem.ops[id];
  if (op.kind != OpKind::Elementwise || op.operands.size() != 2)
    return false;
  auto isProduct = [&](ValueId value) {
    OpId producer = facts.producer[value];
    return producer >= 0 && problem.ops[producer].kind == OpKind::Contraction;
  };
  return (isProduct(op.operands[0]) && isParameter(op.operands[1])) ||
         (isProduct(op.operands[1]) && isParameter(op.operands[0]));
}

bool OpWork::exists(ValueId value) const {
  if (facts.materialized[value] || !runsOpByOp())
    return facts.materialized[value];
  OpId producer = facts.producer[value];
  if (producer < 0 || facts.isStatic[producer])
    return false;
  const Op &op = problem.ops[producer];
  bool casts =
      op.operands.size() == 1 && problem.values[op.operands[0]].type != problem.values[value].type;
  return (op.kind == OpKind::Elementwise && !casts) || op.kind == OpKind::Reduction;
}

double OpWork::movedBytes(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  if (isOwn() && facts.kernelParts[id].isCounted)
    return countedBytes(id, choice, mesh);
  // A library's call reads parts of tensors, which no kernel has made.
  const bool readsParts = isOwn() && isLibraryCall(op);
  double operands = 0, results = 0, indices = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value &value = problem.values[op.operands[i]];
    bool again = std::find(op.operands.begin(), op.operands.begin() + i, op.operands[i]) !=
                 op.operands.begin() + i;
    if (again || (!exists(op.operands[i]) && !readsParts))
      continue;
    const double bytes = heldBytes(op.operands[i], op.rule->operands[i], choice, mesh);
    operands += bytes;
    if (value.type == DType::I64 || value.type == DType::I32)
      indices += bytes;
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const double bytes = heldBytes(op.results[i], op.rule->results[i], choice, mesh);
    if (exists(op.results[i]))
      results += bytes;
    else if (op.kind == OpKind::Reindex)
      operands = std::min(operands, bytes); // of a slice's operand only that part is read
  }
  // A look-up reads only the rows it is asked for; its gradient writes them all.
  if (op.kind == OpKind::Lookup && !op.backward)
    return indices + 2 * results;
  // Rows that are added to another term's are read and written where that is.
  if (isOwn() && facts.kernelParts[id].addsInPlace)
    return operands + 2 * rowsAdded(id, choice, mesh);
  if (isGpu())
    return operands + results; // the model of attention knows what it keeps inside
  return operands + results + 2 * (scratchBytes(id) + savedBytes(id)) * localShare(choice, mesh);
}

/// Sizes as a matrix product, where the op is one.
static void setSizes(const Op &op, const OpSharding &choice, const Mesh &mesh, LocalWork &work) {
  bool isGrouped = op.isGroupedProduct() && op.results.size() == 1;
  if (!isGrouped && !isMatrixProduct(op))
    return;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  for (size_t i = 0; i < op.rule->factors.size(); ++i) {
    auto factor = static_cast<FactorId>(i);
    if (isGrouped && op.rule->factors[i].kind == sharding::FactorKind::Whole)
      continue; // experts of a part: a row meets one of them
    bool left = sharding::occurs(op.rule->operands[0], factor);
    bool right = sharding::occurs(op.rule->operands[1], factor);
    bool out = sharding::occurs(op.rule->results[0], factor);
    int64_t &size = left && right ? (out ? batch : k) : left ? m : n;
    size *= op.rule->factors[i].size / mesh.size(choice.factors[i]);
  }
  work.batch = batch;
  work.m = m;
  work.n = n;
  work.k = k;
}

/// Queries [b, s, heads, e] and keys [b, t, heads, e].
static bool hasHeads(const Op &op) {
  return op.kind == OpKind::Attention && op.rule->operands.size() >= 3 &&
         op.rule->operands[0].size() == 4 && op.rule->operands[1].size() == 4;
}

static int64_t localSize(const Op &op, const std::vector<FactorId> &dim, const OpSharding &choice,
                         const Mesh &mesh) {
  int64_t size = 1;
  for (FactorId factor : dim)
    size *= op.rule->factors[factor].size / mesh.size(choice.factors[factor]);
  return size;
}

double OpWork::workspaceBytes(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  if (!isGpu() || !hasHeads(op) || op.decomposed || model.getCluster().software.flashAttention)
    return 0;
  auto local = [&](size_t operand, size_t dim) {
    return localSize(op, op.rule->operands[operand][dim], choice, mesh);
  };
  return double(
      op.workspace.bytes(local(0, 0), local(0, 2), local(1, 2), local(0, 1), local(1, 1)));
}

/// s and t of each head of each sample.
static void setAttention(const Op &op, const OpSharding &choice, const Mesh &mesh,
                         LocalWork &work) {
  if (!hasHeads(op))
    return;
  auto local = [&](const std::vector<FactorId> &dim) { return localSize(op, dim, choice, mesh); };
  const TensorFactors &query = op.rule->operands[0], &key = op.rule->operands[1];
  work.attention = true;
  work.decomposed = op.decomposed;
  work.causal = op.causal;
  work.window = op.window;
  work.backward = op.backward && *op.backward != BackwardKind::Recompute;
  work.biased = !work.backward && op.operands.size() > 3;
  work.batch = local(query[0]) * local(query[2]);
  work.m = local(query[1]);
  work.n = local(key[1]);
  work.k = local(query[3]);
}

/// Whether a value was turned by its position. It is then put together again from parts that were
/// multiplied with tables, which depend on nothing that varies (Su et al. 2021, RoFormer).
static bool isRotated(const Problem &problem, const ProblemFacts &facts, ValueId value) {
  bool joined = false, scaled = false;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    OpId producer = facts.producer[open.back()];
    bool isTable = producer >= 0 ? facts.isStatic[producer]
                                 : problem.values[open.back()].kind == ValueKind::Buffer;
    open.pop_back();
    scaled = scaled || isTable;
    if (producer < 0 || isTable)
      continue;
    const Op &op = problem.ops[producer];
    joined = joined || op.kind == OpKind::Join;
    if (op.kind == OpKind::Elementwise || op.kind == OpKind::Reindex || op.kind == OpKind::View ||
        op.kind == OpKind::Join)
      open.insert(open.end(), op.operands.begin(), op.operands.end());
  }
  return joined && scaled;
}

/// x * cos + rotate(x) * sin, as PyTorch runs Megatron-Core's `_apply_rotary_pos_emb_bshd` for
/// queries and for keys: 12 kernels each, and 9 for its gradient. In tensors of their size read or
/// written: two products, a sign (of half), two joins and a sum. Back: two products, a sign (of
/// half), a join, two sums, and two slices that begin with zeros.
void OpWork::addRotary(const Op &op, LocalWork &work) const {
  constexpr double forward = 12, backward = 17;
  const Op &attention = op.backward ? problem.ops[op.forward] : op;
  if (!isRotated(problem, facts, attention.operands[0]))
    return;
  const Value &queries = problem.values[attention.operands[0]];
  const Value &keys = problem.values[attention.operands[1]];
  double bytes = double(work.batch * work.m * work.k * byteSize(queries.type)) *
                 (1 + double(keys.elements()) / double(queries.elements()));
  work.passes = work.backward ? 18 : 24;
  work.passedBytes = (work.backward ? backward : forward) * bytes;
}

/// What a program doesn't have as one kernel. Of norms and losses: statistics in
/// single precision, each step a kernel that reads and writes its tensor.
void OpWork::takeApart(const Op &op, double share, LocalWork &work) const {
  const Software &software = model.getCluster().software;
  if (op.kind == OpKind::Normalization && !software.fusedNorm) {
    constexpr double traffic = 8; // of bf16 read and written once
    work.bytes *= traffic;
    work.kernels = 6;
  }
  if (op.kind == OpKind::Attention && !isOneKernel(model.device(), software, work))
    work.kernels = (op.backward ? 4 : 2) + (software.fusesSoftmax(work.batch) ? 1 : 4) +
                   software.dropout + work.biased;
  if (work.attention && !software.fusedRotary && !runsOpByOp())
    addRotary(op, work);
  // Passes over the logits in f32. Forward they are the cast, their largest (1), the difference,
  // exponentials (2 each), their sum (1), the quotient (2). Back they are the difference to the
  // target, its scale, the cast (2 each).
  if (double logits = share * logitBytes(op); logits > 0) {
    work.bytes += (op.backward ? 5 : 9) * logits;
    work.kernels = op.backward ? 3 : 6;
  }
  if (op.kind == OpKind::Loss && !op.backward && software.lossMetrics > 0)
    addMetrics(op, share, work);
}

/// PyTorch's cross entropy, without gradients. It makes a copy of the logits in f32. The kernel of
/// its log softmax (cunn_SoftMaxForward) reads them for their largest, their sum and its result,
/// each a pass.
void OpWork::addMetrics(const Op &op, double share, LocalWork &work) const {
  const Value &logits = problem.values[op.operands[0]];
  double elements = share * double(logits.elements());
  auto metrics = double(model.getCluster().software.lossMetrics);
  work.bytes += metrics * elements * (byteSize(logits.type) + 5 * byteSize(DType::F32));
  work.kernels += 3 * model.getCluster().software.lossMetrics;
}

/// Whether rows that find their experts when the program runs are put in order twice. Before they
/// are sent, the order is by rank. Where they arrive for several experts, it is by expert.
static bool sortsTwice(const Op &op, const Mesh &mesh) {
  int64_t ranks = mesh.size(mesh.ofDegree("ep"));
  return op.kind == OpKind::Lookup && op.groupedExperts >= 0 && ranks > 1 &&
         op.rule->factors[op.groupedExperts].size > ranks;
}

/// The buckets that a kernel of its own makes of the indices of rows that are added up, as the
/// compiler decides (Kernels/Simplify.cpp). A table's outermost rows have such.
static std::optional<sharding::IndexBuckets>
bucketsOfSum(const Problem &problem, const Op &op, const OpSharding &choice, const Mesh &mesh) {
  if (op.kind != OpKind::Lookup || !op.backward || op.operands.size() != 2 ||
      op.results.size() != 1)
    return std::nullopt;
  const Value &indices = problem.values[op.operands[0]], &table = problem.values[op.results[0]];
  const std::vector<FactorId> &dims = op.rule->results[0].front();
  if ((indices.type != DType::I64 && indices.type != DType::I32) || dims.empty() ||
      sharding::occurs(op.rule->operands[1], dims.front()))
    return std::nullopt;
  int64_t tableRows = table.shape.front();
  for (FactorId factor : dims)
    tableRows /= mesh.size(choice.factors[factor]);
  const int64_t bytes = byteSize(indices.type);
  return sharding::bucketsOf(
      tableRows, localBytes(indices, op.rule->operands[0], choice, mesh) / bytes, bytes);
}

LocalWork OpWork::work(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  LocalWork result;
  if (!op.operands.empty())
    result.type = problem.values[op.operands[0]].type;
  result.flops = op.flops * localShare(choice, mesh);
  if (op.kind == OpKind::Lookup && op.flops > 0)
    result.type = DType::F32; // comparisons, which no matrix unit makes
  result.kernels =
      op.kind != OpKind::View && std::any_of(op.results.begin(), op.results.end(),
                                             [&](ValueId value) { return exists(value); });
  const bool isCounted = isOwn() && facts.kernelParts[id].isCounted;
  if (isCounted)
    result.kernels = facts.kernelParts[id].launches;
  result.bytes = op.kind == OpKind::View && !isCounted ? 0 : movedBytes(id, choice, mesh);
  if (auto buckets = isOwn() ? bucketsOfSum(problem, op, choice, mesh) : std::nullopt) {
    ++result.kernels;
    result.bytes += 2 * double(buckets->elements()) * double(byteSize(DType::I32));
  }
  if (sortsTwice(op, mesh)) {
    result.kernels *= 2;
    result.bytes *= 2;
  }
  setSizes(op, choice, mesh, result);
  result.grouped = isOwn() && isGpu() && op.isGroupedProduct();
  setAttention(op, choice, mesh, result);
  if (multipliesCopies(problem, op))
    addWideCopies(problem, facts, id, choice, mesh, result);
  else if (isOwn() && op.widened)
    addWidening(id, choice, mesh, result);
  if (runsOpByOp() && isEpilogue(id))
    return LocalWork{.kernels = 0};
  if (isInProduct(id))
    return LocalWork{.bytes = bytesBesideProduct(id, choice, mesh), .kernels = 0};
  if (isOwn() && joinsInPlace(problem, facts, id))
    return LocalWork{.kernels = 0};
  if (isGpu())
    takeApart(op, localShare(choice, mesh), result);
  return result;
}

std::vector<RoundUse> OpWork::rounds(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  std::vector<RoundUse> result;
  const Op &op = problem.ops[id];
  for (const Round &round : op.rounds) {
    if (choice.factors[round.factor].empty())
      continue;
    int64_t elements = 1;
    for (FactorId factor : round.tensor)
      elements *= op.rule->factors[factor].size / mesh.size(choice.factors[factor]);
    result.push_back({choice.factors[round.factor], elements * round.elementBytes});
  }
  return result;
}

double OpWork::seconds(OpId op, const OpSharding &choice, const Mesh &mesh) const {
  double result = computing(op, choice, mesh).seconds;
  for (const RingUse &use : ring(op, choice, mesh))
    result += use.seconds;
  for (const RoundUse &round : rounds(op, choice, mesh))
    result += model.collectiveSeconds(sharding::StepKind::AllReduce, round.axes,
                                      double(round.bytes), mesh);
  return result;
}

} // namespace dtc::plan
