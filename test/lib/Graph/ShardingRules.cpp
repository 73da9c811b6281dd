// `test-sharding-rule` prints the rule of every op as a remark.
//
// `test-sharding-rule-numerics` proves it. It tries every choice of axes for one or two factors on
// a mesh <x=2, y=2>, and every linear set with pending operands. All ranks together must compute
// what the op computes alone. The number of choices tried becomes the function's attribute
// `test.shardings`.
#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Interpreter/Interpreter.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::interpreter;
using dtc::sharding::OpSharding;
using dtc::sharding::ShardingRule;
using dtc::sharding::TensorSharding;

namespace {

struct ShardingRulePass : PassWrapper<ShardingRulePass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ShardingRulePass)
  StringRef getArgument() const override { return "test-sharding-rule"; }
  StringRef getDescription() const override { return "prints the sharding rule of every op"; }
  void runOnOperation() override {
    getOperation().walk([](ShardingRuleOpInterface op) {
      op->emitRemark() << op.getShardingRule().str();
    });
  }
};

constexpr double kTolerance = 1e-9;

sharding::Mesh testMesh() { return {{{"x", "x", 2}, {"y", "y", 2}}}; }

/// The choices to try: one factor by x, one by both axes, and two factors by one each. Also each
/// linear set pending over x, beside a factor split by y.
std::vector<OpSharding> choices(const ShardingRule &rule) {
  std::vector<OpSharding> all;
  OpSharding none{std::vector<sharding::AxisList>(rule.factors.size()), {}};
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    OpSharding one = none;
    one.factors[f] = {0};
    all.push_back(one);
    one.factors[f] = {0, 1};
    all.push_back(one);
    for (size_t g = 0; g < rule.factors.size(); ++g) {
      OpSharding two = none;
      two.factors[f] = {0};
      two.factors[g].push_back(1);
      all.push_back(two);
    }
  }
  for (int set = 0; set < static_cast<int>(rule.linear.size()); ++set) {
    OpSharding pending = none;
    pending.pending = {{0, set}};
    all.push_back(pending);
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      OpSharding both = pending;
      both.factors[f] = {1};
      all.push_back(both);
    }
  }
  return all;
}

/// One op under one choice.
class Trial {
public:
  Trial(ShardingRuleOpInterface op, const ShardingRule &rule, const OpSharding &choice,
        const sharding::Mesh &mesh)
      : op(op), rule(rule), choice(choice), mesh(mesh) {}

  /// Compares with `expected`; a diagnostic tells the choice where they differ.
  LogicalResult run(const Tensors &operands, const Tensors &expected) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(op.getLoc());
    FailureOr<func::FuncOp> local = buildFunction(*module);
    if (failed(local))
      return failure();
    auto results = evaluateRanks(*local, mesh, shards(operands), Numerics::Double);
    if (failed(results))
      return failure();
    for (size_t i = 0; i < expected.size(); ++i) {
      Tensors ofRanks;
      for (Tensors &rank : *results)
        ofRanks.push_back(std::move(rank[i]));
      TensorSharding sharding = sharding::resultSharding(rule, choice, i);
      auto whole = unshard(ofRanks, sharding, mesh, expected[i].type, kTolerance);
      if (!whole)
        return op.emitError() << "copies of result " << i << " differ under " << describe();
      if (!(maxDifference(*whole, expected[i]) <= kTolerance))
        return op.emitError() << "result " << i << " differs under " << describe();
    }
    return success();
  }

private:
  std::string describe() const {
    std::string text = rule.str() + " with";
    for (size_t i = 0; i < op->getNumOperands(); ++i)
      text += " " + sharding::operandSharding(rule, choice, i).str(mesh);
    return text;
  }

  RankedTensorType localType(Type type, const TensorSharding &sharding) const {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.clone(sharding.localShape(tensor.getShape().vec(), mesh));
  }

  FailureOr<func::FuncOp> buildFunction(ModuleOp module) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    dist::MeshOp::create(builder, op.getLoc(), "mesh", builder.getStrArrayAttr({"x", "y"}),
                         ArrayRef<int64_t>{2, 2}, builder.getStrArrayAttr({"x", "y"}));
    SmallVector<Type> arguments, results;
    for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
      arguments.push_back(localType(type, sharding::operandSharding(rule, choice, i)));
    for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
      results.push_back(localType(type, sharding::resultSharding(rule, choice, i)));
    auto func = func::FuncOp::create(builder, op.getLoc(), "local",
                                     builder.getFunctionType(arguments, results));
    Block *body = func.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    LocalContext context{rule, choice, mesh, [&](OpBuilder &b, sharding::FactorId factor) {
                           return shardStart(b, factor);
                         }};
    auto values = op.buildLocal(builder, body->getArguments(), results, context);
    if (failed(values))
      return failure();
    func::ReturnOp::create(builder, op.getLoc(), *values);
    return func;
  }

  /// This rank's position along the factor's axes times the size of a shard.
  Value shardStart(OpBuilder &builder, sharding::FactorId factor) {
    const sharding::AxisList &axes = choice.factors[factor];
    if (axes.empty())
      return {};
    auto type = RankedTensorType::get({}, builder.getI64Type());
    auto meshName = FlatSymbolRefAttr::get(builder.getContext(), "mesh");
    Value position = dist::AxisIndexOp::create(builder, op.getLoc(), type, meshName,
                                               dist::toAttr(builder.getContext(), axes, mesh));
    int64_t size = rule.factors[factor].size / mesh.size(axes);
    Value step = arith::ConstantOp::create(
        builder, op.getLoc(), DenseElementsAttr::get(type, builder.getI64IntegerAttr(size)));
    return arith::MulIOp::create(builder, op.getLoc(), position, step);
  }

  /// Operands that are pending get a random term on one rank and the rest on
  /// the other, so that neither rank's term alone would do.
  std::vector<Tensors> shards(const Tensors &operands) const {
    std::vector<Tensors> ranks(mesh.devices());
    for (size_t i = 0; i < operands.size(); ++i) {
      TensorSharding sharding = sharding::operandSharding(rule, choice, i);
      std::vector<sharding::Partial> partial = std::exchange(sharding.partial, {});
      Tensor term = randomTensor(operands[i].type, 1000 + i, 4), rest = operands[i];
      for (size_t k = 0; k < rest.floats.size(); ++k)
        rest.floats[k] -= term.floats[k];
      for (size_t k = 0; k < rest.ints.size(); ++k)
        rest.ints[k] -= term.ints[k];
      Tensors terms = shard(term, sharding, mesh), rests = shard(rest, sharding, mesh);
      Tensors whole = shard(operands[i], sharding, mesh);
      for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
        bool first = partial.empty() || mesh.position(rank, {partial[0].axis}) == 0;
        ranks[rank].push_back(partial.empty() ? whole[rank] : first ? terms[rank] : rests[rank]);
      }
    }
    return ranks;
  }

  ShardingRuleOpInterface op;
  const ShardingRule &rule;
  const OpSharding &choice;
  const sharding::Mesh &mesh;
};

struct NumericsPass : PassWrapper<NumericsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NumericsPass)
  NumericsPass() = default;
  NumericsPass(const NumericsPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "test-sharding-rule-numerics"; }
  StringRef getDescription() const override {
    return "evaluates every op on shards under every choice and compares";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<dist::DistDialect>();
  }

  void runOnOperation() override {
    int64_t tried = 0;
    auto result = getOperation().walk(
        [&](ShardingRuleOpInterface op) { return WalkResult(testOp(op, tried)); });
    if (result.wasInterrupted())
      signalPassFailure();
    getOperation()->setAttr("test.shardings", Builder(&getContext()).getI64IntegerAttr(tried));
  }

  LogicalResult testOp(ShardingRuleOpInterface op, int64_t &tried) {
    Tensors operands;
    for (Type type : op->getOperandTypes())
      operands.push_back(
          randomTensor(cast<RankedTensorType>(type), 1 + operands.size(), intBound));
    auto expected = evaluate(op.getOperation(), operands, Numerics::Double);
    if (failed(expected))
      return failure();
    ShardingRule rule = op.getShardingRule();
    sharding::Mesh mesh = testMesh();
    for (const OpSharding &choice : choices(rule)) {
      if (!sharding::check(rule, choice, mesh).empty() || sharding::needsRounds(rule, choice))
        continue;
      if (failed(Trial(op, rule, choice, mesh).run(operands, *expected)))
        return failure();
      ++tried;
    }
    return success();
  }

  Option<int64_t> intBound{*this, "int-bound", llvm::cl::init(10),
                           llvm::cl::desc("integers are drawn from [0, bound)")};
};

} // namespace

namespace dtc::test {
void registerGraphTestPasses() {
  PassRegistration<ShardingRulePass>();
  PassRegistration<NumericsPass>();
}
} // namespace dtc::test
