#include "dtc/Interpreter/Step.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Interpreter/Interpreter.h"

#include "RankLayout.h"

#include <cmath>
#include <map>
#include <tuple>

using namespace mlir;

namespace dtc::interpreter {

using graph::RoleAttr;
using graph::RoleKind;

namespace {

/// What a value is, the same in all functions of a step.
using Key = std::tuple<RoleKind, std::string, int>;

/// A value on one rank and on all.
struct Twin {
  Tensor whole;
  Tensors shards;
  RankLayout layout;
};

class Step {
public:
  Step(ModuleOp global, ModuleOp local, const StepOptions &options)
      : global(global), local(local), options(options) {}
  FailureOr<StepComparison> run();

private:
  LogicalResult train();
  LogicalResult call(StringRef name, int64_t microbatch);
  FailureOr<Twin> argument(func::FuncOp whole, func::FuncOp part, unsigned index,
                           int64_t microbatch);
  Tensor draw(func::FuncOp func, unsigned index, RoleAttr role);
  FailureOr<Tensor> samples(func::FuncOp func, unsigned index, RoleAttr role, int64_t microbatch);
  LogicalResult keep(func::FuncOp whole, func::FuncOp part, const Tensors &results,
                     std::vector<Tensors> &ofRanks);
  LogicalResult compare(bool isUpdate);
  FailureOr<RankLayout> layoutOf(func::FuncOp func, DictionaryAttr attributes);

  ModuleOp global, local;
  StepOptions options;
  sharding::Mesh mesh;
  std::map<Key, Twin> values;
  std::map<std::string, Tensor> data; ///< inputs and targets of all microbatches
  uint64_t drawn = 0;                 ///< tensors
  std::vector<Key> returned;          ///< by the last function
  StepComparison comparison;
};

} // namespace

static Key keyOf(RoleAttr role) {
  bool isCount = role.getKind() == RoleKind::Scalar && role.getScalar() &&
                 *role.getScalar() == graph::ScalarKind::Count;
  if (isCount)
    return {RoleKind::Count, "", -1};
  int detail = role.getState() ? int(*role.getState()) : -1;
  if (role.getKind() == RoleKind::Scalar && role.getScalar())
    detail = int(*role.getScalar());
  return {role.getKind(), role.getName().str(), detail};
}

static std::string describe(const Key &key, bool isUpdate) {
  const auto &[kind, name, detail] = key;
  std::string after = isUpdate ? " after the update" : "";
  switch (kind) {
  case RoleKind::Loss:
    return "loss" + after;
  case RoleKind::Gradient:
    return "gradient of " + name;
  case RoleKind::State:
    return graph::stringifyStateKind(graph::StateKind(detail)).str() + " of " + name + after;
  case RoleKind::Master:
    return "master copy of " + name + after;
  case RoleKind::GradNorm:
    return "norm of the gradient";
  case RoleKind::Count:
    return name.empty() ? "count of targets" : "count of gradients that aren't finite";
  case RoleKind::Parameter:
  case RoleKind::Buffer:
    return name + after;
  case RoleKind::Output:
    return "output " + name;
  case RoleKind::Input:
  case RoleKind::Target:
  case RoleKind::Scalar:
  case RoleKind::Kept:
  case RoleKind::Inbox:
  case RoleKind::Outbox:
    return name;
  }
  return name;
}

static double largest(const Tensor &tensor) {
  double result = 0;
  for (double value : tensor.floats)
    result = std::max(result, std::fabs(value));
  return result;
}

static bool isFinite(const Tensor &tensor) {
  return llvm::all_of(tensor.floats, [](double value) { return std::isfinite(value); });
}

//===----------------------------------------------------------------------===//
// What is drawn
//===----------------------------------------------------------------------===//

/// Parameters such that activations keep their size through layers, states that an
/// optimizer may have (second moments aren't negative), samples below their limits.
Tensor Step::draw(func::FuncOp func, unsigned index, RoleAttr role) {
  auto type = cast<RankedTensorType>(func.getArgumentTypes()[index]);
  auto limit = func.getArgAttrOfType<IntegerAttr>(index, graph::GraphDialect::kLimit);
  Tensor tensor = randomTensor(type, options.seed + 1000 * drawn++, limit ? limit.getInt() : 8);
  RoleKind kind = role.getKind();
  if (kind == RoleKind::Parameter && type.getRank() > 1)
    for (double &value : tensor.floats)
      value *= std::sqrt(3.0) / std::pow(double(type.getNumElements()), 0.25);
  if (kind == RoleKind::State || kind == RoleKind::Buffer) // variances
    for (double &value : tensor.floats)
      value = std::fabs(value) + 0.05;
  if (kind == RoleKind::Scalar && role.getScalar())
    for (double &value : tensor.floats)
      value = *role.getScalar() == graph::ScalarKind::LearningRate ? 0.01 : 3;
  if (kind == RoleKind::Gradient || kind == RoleKind::Loss) // nothing is summed up yet
    for (double &value : tensor.floats)
      value = 0;
  // Integers that are no indices are masks: mostly ones, each first column.
  if (!limit && type.getElementType().isInteger() && type.getRank() > 0)
    for (auto [i, value] : llvm::enumerate(tensor.ints))
      value = value > 0 || i % type.getShape().back() == 0;
  if (kind == RoleKind::Target && options.ignoreIndex)
    for (size_t i = 2; i < tensor.ints.size(); i += 5)
      tensor.ints[i] = *options.ignoreIndex;
  return tensor;
}

/// The part of an input or target that one call gets. What the prologue has seen
/// whole is cut; of the rest each call has its own.
FailureOr<Tensor> Step::samples(func::FuncOp func, unsigned index, RoleAttr role,
                                int64_t microbatch) {
  auto type = cast<RankedTensorType>(func.getArgumentTypes()[index]);
  auto found = data.find(role.getName().str());
  if (found == data.end()) {
    Tensor drawn = draw(func, index, role);
    if (options.microbatches == 1 || microbatch < 0)
      data.emplace(role.getName().str(), drawn);
    return drawn;
  }
  const Tensor &all = found->second;
  int64_t size = type.getNumElements(), calls = microbatch < 0 ? 1 : options.microbatches;
  if (type.getRank() == 0 || all.size() != calls * size)
    return func.emitError() << "argument " << index << " is no microbatch of '" << role.getName()
                            << "'";
  Tensor part(type);
  auto copy = [&](auto &out, const auto &in) {
    if (!in.empty())
      std::copy_n(in.begin() + std::max<int64_t>(microbatch, 0) * size, size, out.begin());
  };
  copy(part.floats, all.floats);
  copy(part.ints, all.ints);
  return part;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

FailureOr<RankLayout> Step::layoutOf(func::FuncOp func, DictionaryAttr attributes) {
  std::optional<RankLayout> layout = RankLayout::of(attributes, mesh);
  if (!layout)
    return func.emitError() << "has an argument or result without a sharding";
  return *layout;
}

FailureOr<Twin> Step::argument(func::FuncOp whole, func::FuncOp part, unsigned index,
                               int64_t microbatch) {
  RoleAttr role = graph::getArgRole(whole, index);
  if (!role || !Tensor::isSupported(whole.getArgumentTypes()[index]))
    return whole.emitError() << "argument " << index << " has no role or a type that isn't "
                             << "interpreted";
  auto layout = layoutOf(part, part.getArgAttrDict(index));
  if (failed(layout))
    return failure();
  bool isData = role.getKind() == RoleKind::Input || role.getKind() == RoleKind::Target;
  auto found = values.find(keyOf(role));
  if (!isData && found != values.end()) {
    if (!(found->second.layout == *layout))
      return part.emitError() << "argument " << index << " is laid out otherwise than '"
                              << role.getName() << "' was left";
    return found->second;
  }
  FailureOr<Tensor> tensor =
      isData ? samples(whole, index, role, microbatch) : draw(whole, index, role);
  if (failed(tensor))
    return failure();
  std::string wrong = layout->sharding.check(tensor->shape().vec(), mesh);
  if (!wrong.empty())
    return part.emitError() << "argument " << index << ": " << wrong;
  auto local = cast<RankedTensorType>(part.getArgumentTypes()[index]);
  Twin twin{*tensor, layout->divide(*tensor, local, mesh), *layout};
  if (!isData)
    values.insert_or_assign(keyOf(role), twin);
  return twin;
}

LogicalResult Step::keep(func::FuncOp whole, func::FuncOp part, const Tensors &results,
                         std::vector<Tensors> &ofRanks) {
  returned.clear();
  for (auto [i, result] : llvm::enumerate(results)) {
    RoleAttr role = graph::getResultRole(whole, i);
    auto layout = layoutOf(part, part.getResultAttrDict(i));
    if (!role || failed(layout))
      return whole.emitError() << "result " << i << " has no role or sharding";
    if (!isFinite(result))
      return whole.emitError() << "computes nothing finite from drawn values: "
                               << describe(keyOf(role), false);
    if (!layout->sharding.check(result.shape().vec(), mesh).empty())
      return part.emitError() << "result " << i << " can't be laid out as it says";
    Tensors shards;
    for (Tensors &rank : ofRanks) {
      shards.push_back(std::move(rank[i]));
      if (!layout->fits(shards.back().shape(), result.shape(), mesh))
        return part.emitError() << "result " << i << " hasn't the shape of its shard";
    }
    values.insert_or_assign(keyOf(role), Twin{result, std::move(shards), *layout});
    returned.push_back(keyOf(role));
  }
  return success();
}

LogicalResult Step::call(StringRef name, int64_t microbatch) {
  auto whole = global.lookupSymbol<func::FuncOp>(name);
  auto part = local.lookupSymbol<func::FuncOp>(name);
  if (!part || part.getNumArguments() != whole.getNumArguments() ||
      part.getNumResults() != whole.getNumResults())
    return whole.emitError() << "is not among the partitioned functions as it was: " << name;
  Tensors inputs;
  std::vector<Tensors> ofRanks(mesh.devices());
  for (unsigned i = 0; i < whole.getNumArguments(); ++i) {
    FailureOr<Twin> twin = argument(whole, part, i, microbatch);
    if (failed(twin))
      return failure();
    inputs.push_back(std::move(twin->whole));
    for (auto [rank, shard] : llvm::zip_equal(ofRanks, twin->shards))
      rank.push_back(std::move(shard));
  }
  auto results = evaluate(whole, inputs, Numerics::Double);
  if (failed(results))
    return failure();
  auto rankResults = evaluateRanks(part, mesh, ofRanks, Numerics::Double);
  if (failed(rankResults))
    return failure();
  return keep(whole, part, *results, *rankResults);
}

/// What the last function returned.
LogicalResult Step::compare(bool isUpdate) {
  double scale = 0;
  for (const Key &key : returned)
    scale = std::max(scale, largest(values.at(key).whole));
  if (scale == 0 && !returned.empty())
    return global.emitError() << "computes zeros alone from drawn values, which prove nothing: "
                              << describe(returned.front(), isUpdate);
  for (const Key &key : returned) {
    const Twin &twin = values.at(key);
    double unit = std::max({largest(twin.whole), 1e-4 * scale, 1e-30});
    // Copies that differ are a difference, too.
    auto whole = twin.layout.join(twin.shards, mesh, twin.whole.type,
                                  std::numeric_limits<double>::infinity());
    auto same = twin.layout.join(twin.shards, mesh, twin.whole.type,
                                 StepComparison::kTolerance * std::min(unit, 1.0));
    double difference = whole && same ? 0 : std::numeric_limits<double>::infinity();
    for (size_t i = 0; whole && i < whole->floats.size(); ++i) {
      double delta = std::fabs(whole->floats[i] - twin.whole.floats[i]) / unit;
      difference = std::max(difference, std::isnan(delta)
                                            ? std::numeric_limits<double>::infinity() : delta);
    }
    if (whole && whole->ints != twin.whole.ints)
      difference = std::numeric_limits<double>::infinity();
    ++comparison.tensors;
    if (difference > comparison.worst || comparison.worstTensor.empty()) {
      comparison.worst = difference;
      comparison.worstTensor = describe(key, isUpdate);
    }
  }
  return success();
}

LogicalResult Step::train() {
  auto has = [&](StringRef name) { return bool(global.lookupSymbol<func::FuncOp>(name)); };
  if (has("prologue") && (failed(call("prologue", -1)) || failed(compare(false))))
    return failure();
  for (int64_t i = 0; i < std::min<int64_t>(options.microbatches, 2); ++i)
    if (failed(call("loss_and_grads", i)))
      return failure();
  if (failed(compare(false)))
    return failure();
  return !has("update") || (succeeded(call("update", 0)) && succeeded(compare(true)))
             ? success() : failure();
}

FailureOr<StepComparison> Step::run() {
  auto meshes = local.getOps<dist::MeshOp>();
  if (meshes.empty())
    return local.emitError() << "has no mesh";
  mesh = dist::toMesh(*meshes.begin());
  comparison.ranks = mesh.devices();
  if (global.lookupSymbol<func::FuncOp>("loss_and_grads"))
    return failed(train()) ? FailureOr<StepComparison>() : comparison;
  if (!global.lookupSymbol<func::FuncOp>("forward"))
    return global.emitError() << "has neither loss_and_grads nor forward";
  if (failed(call("forward", 0)) || failed(compare(false)))
    return failure();
  return comparison;
}

FailureOr<StepComparison> compareStep(ModuleOp global, ModuleOp local, const StepOptions &options) {
  return Step(global, local, options).run();
}

} // namespace dtc::interpreter
