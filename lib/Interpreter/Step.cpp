#include "dtc/Interpreter/Step.h"

#include "Clipping.h"
#include "Decisions.h"
#include "Evaluator.h"
#include "RankStep.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Graph/StepFunctions.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace dtc::interpreter {

using graph::RoleAttr;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Draws of a step, as long as there are gradients that were zero in all of them, or decisions that
/// didn't vary (Decisions.h).
static constexpr int kMostDraws = 4;

static double largest(const Tensor &tensor) {
  double result = 0;
  for (double value : tensor.floats)
    result = std::max(result, std::fabs(value));
  return result;
}

static bool isFinite(const Tensor &tensor) {
  return llvm::all_of(tensor.floats, [](double value) { return std::isfinite(value); });
}

/// The largest difference over `unit`; of integers, infinity where any differs.
static double difference(const Tensor &a, const Tensor &b, double unit) {
  double result = a.ints == b.ints ? 0 : kInfinity;
  for (size_t i = 0; i < a.floats.size(); ++i) {
    double delta = std::fabs(a.floats[i] - b.floats[i]) / unit;
    result = std::max(result, std::isnan(delta) ? kInfinity : delta);
  }
  return result;
}

namespace {

class Step {
public:
  Step(ModuleOp global, RankStep ranks, const StepOptions &options, Decompositions &decompositions,
       Decisions &decisions, bool isFirst)
      : global(global), ranks(std::move(ranks)), options(options), decompositions(decompositions),
        decisions(decisions), clipping(global), isFirst(isFirst), draws(options) {}
  FailureOr<StepComparison> run();
  /// Gradients without an element that isn't zero. They are so behind rectifiers that are all off,
  /// and what is wrong with them isn't seen.
  std::set<Key> zeroGradients() const;

private:
  LogicalResult train();
  LogicalResult update();
  LogicalResult updates();
  /// What was found; a failure that proves nothing is none.
  FailureOr<StepComparison> compared(LogicalResult result) const;
  LogicalResult call(func::FuncOp whole, int64_t microbatch);
  /// Draws what a function takes and nothing has given.
  FailureOr<Tensor> argument(func::FuncOp whole, unsigned index, int64_t microbatch);
  LogicalResult keep(func::FuncOp whole, Tensors results);
  LogicalResult provesNothing(StringRef why, const Key &key);
  LogicalResult compare(bool isUpdate);
  LogicalResult compare(const Key &key, bool isUpdate, double scale);
  /// How the ranks' tensor differs; infinity where they don't even make one.
  FailureOr<double> differenceOn(const Key &key, const ShardsByHolder &held, bool isSummed,
                                 double unit);

  ModuleOp global;
  RankStep ranks;
  StepOptions options;
  Decompositions &decompositions;
  Decisions &decisions;
  Clipping clipping;
  bool isFirst; ///< draw
  Draws draws;
  Wholes values;             ///< on one rank
  std::vector<Key> returned; ///< by the last function, in the order in which they are computed
  std::string circumstances; ///< of an update whose gradients aren't what the passes gave
  StepComparison comparison;
};

} // namespace

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

FailureOr<Tensor> Step::argument(func::FuncOp whole, unsigned index, int64_t microbatch) {
  RoleAttr role = graph::getArgRole(whole, index);
  if (!role || !Tensor::isSupported(whole.getArgumentTypes()[index]))
    return whole.emitError() << "argument " << index << " has no role or a type that isn't "
                             << "interpreted";
  auto found = values.find(keyOf(role));
  if (isData(role.getKind())) {
    FailureOr<Tensor> tensor = draws.samples(whole, index, role, microbatch);
    if (succeeded(tensor))
      values.insert_or_assign(keyOf(role), *tensor);
    return tensor;
  }
  if (found == values.end())
    found = values.emplace(keyOf(role), draws.draw(whole, index, role)).first;
  return found->second;
}

/// Ends the comparison.
LogicalResult Step::provesNothing(StringRef why, const Key &key) {
  comparison.unproven = (why + ": ").str() + describe(key, /*isUpdate=*/false);
  return failure();
}

/// The results of a function, those first that are computed first.
static SmallVector<unsigned> inOrder(func::FuncOp function) {
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, function.getNumResults()));
  Operation *terminator = function.front().getTerminator();
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    Operation *first = terminator->getOperand(a).getDefiningOp();
    Operation *second = terminator->getOperand(b).getDefiningOp();
    return first && second ? first != second && first->isBeforeInBlock(second) : second != nullptr;
  });
  return order;
}

LogicalResult Step::keep(func::FuncOp whole, Tensors results) {
  returned.clear();
  for (unsigned i : inOrder(whole)) {
    RoleAttr role = graph::getResultRole(whole, i);
    if (!role)
      return whole.emitError() << "result " << i << " has no role";
    if (!isFinite(results[i]) && circumstances.empty())
      return provesNothing("the model computes nothing finite from drawn values", keyOf(role));
    values.insert_or_assign(keyOf(role), std::move(results[i]));
    returned.push_back(keyOf(role));
  }
  return success();
}

LogicalResult Step::call(func::FuncOp whole, int64_t microbatch) {
  Tensors inputs;
  for (unsigned i = 0; i < whole.getNumArguments(); ++i) {
    FailureOr<Tensor> tensor = argument(whole, i, microbatch);
    if (failed(tensor))
      return failure();
    inputs.push_back(std::move(*tensor));
  }
  auto see = [&](Value value, const Tensor &tensor) {
    decisions.see(value, tensor);
    clipping.see(value, tensor);
  };
  auto results = evaluate(whole, inputs, Numerics::Double, decompositions, see);
  if (failed(results))
    return failure();
  bool isPass = whole == graph::microbatchFunction(global);
  StringRef name = whole.getSymName();
  if (failed(isPass ? ranks.callPasses(name, values) : ranks.callTogether(name, values)))
    return failure();
  return keep(whole, std::move(*results));
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

FailureOr<double> Step::differenceOn(const Key &key, const ShardsByHolder &held, bool isSummed,
                                     double unit) {
  const Tensor &whole = values.at(key);
  double result = 0;
  Tensor sum(whole.type);
  for (const auto &[holder, value] : held) {
    const sharding::Mesh &mesh = ranks.getMesh(holder.first);
    if (!value.storage.sharding.check(whole.shape().vec(), mesh).empty() ||
        !llvm::all_of(value.shards, [&](const Tensor &shard) {
          return value.storage.fits(shard.shape(), whole.shape(), mesh);
        }))
      return global.emitError() << "is laid out otherwise than its ranks say: "
                                << describe(key, false);
    // In fp64 nobody would see what a coarser type rounds.
    if (llvm::any_of(value.shards, [&](const Tensor &shard) {
          return shard.type.getElementType() != whole.type.getElementType();
        }))
      return global.emitError() << "has another element type on its ranks: "
                                << describe(key, false);
    // Copies that differ are a difference, too.
    auto tensor = value.storage.join(value.shards, mesh, whole.type, kInfinity);
    bool same = tensor && value.storage.join(value.shards, mesh, whole.type,
                                             StepComparison::kTolerance * std::min(unit, 1.0));
    if (!same)
      return kInfinity;
    if (!isSummed)
      result = std::max(result, difference(*tensor, whole, unit));
    for (size_t i = 0; i < sum.floats.size(); ++i)
      sum.floats[i] += tensor->floats[i];
  }
  return isSummed ? difference(sum, whole, unit) : result;
}

LogicalResult Step::compare(const Key &key, bool isUpdate, double scale) {
  auto held = ranks.getReturned().find(key);
  if (held == ranks.getReturned().end())
    return global.emitError() << "computes what no rank computes: " << describe(key, isUpdate);
  double unit = std::max({largest(values.at(key)), 1e-4 * scale, 1e-30});
  bool isSummed = !isUpdate && isSum(key);
  FailureOr<double> found = differenceOn(key, held->second, isSummed, unit);
  if (failed(found))
    return failure();
  comparison.tensors += circumstances.empty();
  if (*found > StepComparison::kTolerance && comparison.firstWrong.empty())
    comparison.firstWrong = describe(key, isUpdate) + circumstances;
  if (*found > comparison.worst || comparison.worstTensor.empty()) {
    comparison.worst = *found;
    comparison.worstTensor = describe(key, isUpdate) + circumstances;
  }
  return success();
}

/// What the last function returned. What isn't finite on one rank is nothing that is compared.
LogicalResult Step::compare(bool isUpdate) {
  double scale = 0;
  std::vector<Key> finite = returned;
  llvm::erase_if(finite, [&](const Key &key) {
    const bool isUnread = options.evaluates && std::get<0>(key) == graph::RoleKind::Gradient;
    return isUnread || !isFinite(values.at(key));
  });
  for (const Key &key : finite)
    scale = std::max(scale, largest(values.at(key)));
  if (scale == 0 && !returned.empty())
    return provesNothing("the model computes zeros alone from drawn values", returned.front());
  for (const Key &key : finite)
    if (failed(compare(key, isUpdate, scale)))
      return failure();
  for (const auto &[key, held] : ranks.getReturned())
    if (!llvm::is_contained(returned, key))
      return global.emitError() << "doesn't compute what its ranks do: " << describe(key, isUpdate);
  return success();
}

LogicalResult Step::train() {
  func::FuncOp prologue = graph::findFunction(global, graph::kPrologue);
  if (prologue && (failed(call(prologue, -1)) || failed(compare(false))))
    return failure();
  for (int64_t i = 0; i < std::min<int64_t>(options.microbatches, 2); ++i)
    if (failed(call(graph::microbatchFunction(global), i)))
      return failure();
  if (failed(compare(false)))
    return failure();
  const bool isUpdated = !options.evaluates && graph::findFunction(global, graph::kUpdate);
  return isUpdated ? updates() : success();
}

LogicalResult Step::update() {
  func::FuncOp whole = graph::findFunction(global, graph::kUpdate);
  return success(succeeded(call(whole, 0)) && succeeded(compare(true)));
}

static double squaresOf(const Tensor &tensor) {
  double result = 0;
  for (double x : tensor.floats)
    result += x * x;
  return result;
}

/// The norm of each gradient, if all had the same and theirs together were as it is.
static double sizeOfEach(const Wholes &values) {
  double squares = 0, gradients = 0;
  for (const auto &[key, value] : values)
    if (std::get<0>(key) == graph::RoleKind::Gradient) {
      squares += squaresOf(value);
      ++gradients;
    }
  return std::sqrt(squares / std::max(gradients, 1.0));
}

/// So no term of the norm is too small for its lack to show.
static void scaleTo(double size, Tensor &gradient) {
  const double norm = std::sqrt(squaresOf(gradient));
  for (double &x : gradient.floats)
    x *= norm > 0 ? size / norm : 1;
}

/// Elements 0, 1, 4, 9, ...: shards of a gradient have unlike numbers of them.
static void makeSomeInfinite(Tensor &gradient) {
  for (size_t root = 0; root * root < gradient.floats.size(); ++root)
    gradient.floats[root * root] = kInfinity;
}

/// With the gradients of the passes, with such as are clipped and of one size, and with such of
/// which some elements aren't finite.
LogicalResult Step::updates() {
  if (!isFirst)
    return update();
  const Wholes ofPasses = values;
  const RankStep before = ranks;
  auto again = [&](StringRef how, function_ref<void(Tensor &)> change) {
    values = ofPasses;
    ranks = before;
    circumstances = how.str();
    for (auto &[key, gradient] : values)
      if (std::get<0>(key) == graph::RoleKind::Gradient) {
        change(gradient);
        ranks.replaceGradient(key, gradient);
      }
    return update();
  };
  if (failed(update()))
    return failure();
  if (!comparison.firstWrong.empty())
    return success();
  const double size = clipping.missing() * sizeOfEach(ofPasses);
  if (failed(again(", where gradients are clipped and of one size",
                   [&](Tensor &gradient) { scaleTo(size, gradient); })) ||
      failed(again(", where gradients aren't finite", makeSomeInfinite)))
    return failure();
  values = ofPasses;
  return success();
}

FailureOr<StepComparison> Step::compared(LogicalResult result) const {
  return failed(result) && comparison.unproven.empty() ? FailureOr<StepComparison>() : comparison;
}

FailureOr<StepComparison> Step::run() {
  comparison.ranks = ranks.devices();
  if (graph::findFunction(global, graph::kLossAndGrads))
    return compared(train());
  func::FuncOp forward = graph::findFunction(global, graph::kForward);
  if (!forward)
    return global.emitError() << "has neither loss_and_grads nor forward";
  return compared(success(succeeded(call(forward, 0)) && succeeded(compare(false))));
}

std::set<Key> Step::zeroGradients() const {
  std::set<Key> result;
  for (const auto &[key, value] : values)
    if (std::get<0>(key) == graph::RoleKind::Gradient && largest(value) == 0)
      result.insert(key);
  return result;
}

/// Adds what another draw showed.
static void add(StepComparison &sofar, const StepComparison &found) {
  if (found.worst > sofar.worst || sofar.worstTensor.empty()) {
    sofar.worst = found.worst;
    sofar.worstTensor = found.worstTensor;
  }
  sofar.firstWrong = found.firstWrong;
  sofar.ranks = found.ranks;
  sofar.tensors = found.tensors;
}

static FailureOr<StepComparison> compareTraining(ModuleOp global, ModuleOp local,
                                                 const StepOptions &options,
                                                 Decompositions &decompositions) {
  StepComparison comparison;
  std::set<Key> unseen;
  Decisions decisions(global);
  StepOptions drawn = options;
  for (int draw = 0; draw < kMostDraws; ++draw, ++drawn.seed) {
    FailureOr<RankStep> ranks = RankStep::build(local, decompositions);
    if (failed(ranks))
      return failure();
    Step step(global, std::move(*ranks), drawn, decompositions, decisions, draw == 0);
    FailureOr<StepComparison> found = step.run();
    if (failed(found) || (draw == 0 && !found->unproven.empty()))
      return found;
    add(comparison, *found);
    std::set<Key> zeros = step.zeroGradients();
    if (draw == 0)
      unseen = zeros;
    std::erase_if(unseen, [&](const Key &key) { return zeros.count(key) == 0; });
    decisions.endDraw();
    if ((unseen.empty() && decisions.areVaried()) || !comparison.firstWrong.empty())
      return comparison;
  }
  return comparison;
}

static bool canEvaluate(ModuleOp global) {
  func::FuncOp function = graph::findFunction(global, graph::kLossAndGrads);
  for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
    if (RoleAttr role = graph::getArgRole(function, i))
      if (role.getScalar() == graph::ScalarKind::Evaluation)
        return true;
  return false;
}

FailureOr<StepComparison> compareStep(ModuleOp global, ModuleOp local, const StepOptions &options) {
  Decompositions decompositions;
  FailureOr<StepComparison> comparison = compareTraining(global, local, options, decompositions);
  if (failed(comparison) || !comparison->unproven.empty() || !comparison->firstWrong.empty() ||
      !canEvaluate(global))
    return comparison;
  FailureOr<RankStep> ranks = RankStep::build(local, decompositions);
  if (failed(ranks))
    return failure();
  StepOptions drawn = options;
  drawn.evaluates = true;
  Decisions decisions(global);
  Step step(global, std::move(*ranks), drawn, decompositions, decisions, /*isFirst=*/false);
  FailureOr<StepComparison> found = step.run();
  if (failed(found) || !found->unproven.empty())
    return found;
  if (!found->firstWrong.empty())
    found->firstWrong += ", where the step evaluates";
  found->tensors = comparison->tensors;
  add(*comparison, *found);
  return comparison;
}

} // namespace dtc::interpreter
