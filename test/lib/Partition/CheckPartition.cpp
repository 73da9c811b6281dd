// `test-partition` proves the partitioner on the functions of a module. For every op it tries every
// legal choice of axes for one or two of its factors on a mesh, the others following. Then it tries
// random shardings of arguments and random choices for all ops at once. Each time the module is
// partitioned, and all ranks together must compute what the global function computes. Functions
// with roles are partitioned together, others each by itself; with `isolate` every op is made a
// function of its own. A mesh that the module declares is taken. The number of partitions tried
// becomes the module's attribute `test.partitions`.
#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Interpreter/Interpreter.h"
#include "dtc/Partition/Partition.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"

#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::interpreter;
using dtc::sharding::AxisList;
using dtc::sharding::OpSharding;
using dtc::sharding::ShardingRule;
using dtc::sharding::TensorSharding;

namespace {

/// SplitMix64: the same numbers everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t below(uint64_t bound) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % bound;
  }

private:
  uint64_t state;
};

/// Layouts and choices on one mesh, written as attributes.
class Annotator {
public:
  Annotator(MLIRContext *context, const sharding::Mesh &mesh)
      : context(context), mesh(mesh), name(FlatSymbolRefAttr::get(context, "mesh")) {}

  void declareMesh(ModuleOp module) const {
    if (!module.getOps<dist::MeshOp>().empty())
      return;
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    SmallVector<StringRef> names;
    SmallVector<int64_t> sizes;
    for (const sharding::MeshAxis &axis : mesh.axes) {
      names.push_back(axis.name);
      sizes.push_back(axis.size);
    }
    dist::MeshOp::create(builder, module.getLoc(), "mesh", builder.getStrArrayAttr(names), sizes,
                         builder.getStrArrayAttr(names));
  }

  void annotate(Operation *op, const ShardingRule &rule, const OpSharding &choice) const {
    op->setAttr(dist::DistDialect::kOp, dist::toAttr(context, name, choice, rule, mesh));
  }

  /// Every choice that splits one factor by the first axis or all axes, or two
  /// factors by one axis each.
  std::vector<OpSharding> choices(const ShardingRule &rule) const {
    std::vector<OpSharding> all;
    OpSharding none{std::vector<AxisList>(rule.factors.size()), {}};
    auto add = [&](const OpSharding &choice) {
      if (sharding::check(rule, choice, mesh).empty())
        all.push_back(choice);
    };
    AxisList axes;
    for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis)
      axes.push_back(axis);
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      OpSharding one = none;
      one.factors[f] = {0};
      add(one);
      one.factors[f] = axes;
      if (axes.size() > 1)
        add(one);
      for (size_t g = 0; g < rule.factors.size() && axes.size() > 1; ++g) {
        OpSharding two = none;
        two.factors[f] = {0};
        two.factors[g].push_back(1);
        if (f != g)
          add(two);
      }
    }
    return all;
  }

  /// Axes laid at random where they are legal.
  OpSharding randomChoice(const ShardingRule &rule, Random &random) const {
    OpSharding choice{std::vector<AxisList>(rule.factors.size()), {}};
    for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
      OpSharding next = choice;
      size_t place = random.below(rule.factors.size() + rule.linear.size() + 1);
      if (place < rule.factors.size())
        next.factors[place].push_back(axis);
      else if (place < rule.factors.size() + rule.linear.size())
        next.pending.push_back({axis, static_cast<int>(place - rule.factors.size())});
      if (sharding::check(rule, next, mesh).empty())
        choice = next;
    }
    return choice;
  }

  Attribute randomLayout(RankedTensorType type, Random &random) const {
    TensorSharding sharding = TensorSharding::replicated(type.getRank());
    for (int axis = 0; axis < static_cast<int>(mesh.axes.size()) && type.getRank(); ++axis) {
      TensorSharding next = sharding;
      size_t dim = random.below(type.getRank() + 1);
      if (dim < next.dims.size())
        next.dims[dim].push_back(axis);
      if (next.check(type.getShape().vec(), mesh).empty())
        sharding = next;
    }
    return dist::toAttr(context, name, sharding, mesh);
  }

private:
  MLIRContext *context;
  const sharding::Mesh &mesh;
  FlatSymbolRefAttr name;
};

/// A function with inputs and what it computes from them.
struct Oracle {
  std::string name;
  Tensors inputs, expected;
};

struct CheckPartitionPass : PassWrapper<CheckPartitionPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckPartitionPass)
  CheckPartitionPass() = default;
  CheckPartitionPass(const CheckPartitionPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "test-partition"; }
  StringRef getDescription() const override {
    return "partitions functions in many ways, evaluates all ranks and compares";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<dist::DistDialect>();
  }

  void runOnOperation() override {
    if (auto declared = getOperation().getOps<dist::MeshOp>(); !declared.empty())
      mesh = dist::toMesh(*declared.begin());
    for (int64_t size : mesh.axes.empty() ? ArrayRef<int64_t>(sizes) : ArrayRef<int64_t>()) {
      std::string name(1, static_cast<char>('x' + mesh.axes.size()));
      mesh.axes.push_back({name, name, size});
    }
    for (OwningOpRef<ModuleOp> &part : isolate ? isolatedOps() : parts()) {
      subject = *part;
      if (failed(check()))
        return signalPassFailure();
    }
    getOperation()->setAttr("test.partitions", Builder(&getContext()).getI64IntegerAttr(tried));
  }

private:
  static bool hasRoles(func::FuncOp func) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (graph::getArgRole(func, i))
        return true;
    return false;
  }

  std::vector<OwningOpRef<ModuleOp>> parts() {
    std::vector<OwningOpRef<ModuleOp>> result;
    auto add = [&](function_ref<bool(func::FuncOp)> keep) {
      OwningOpRef<ModuleOp> part = cast<ModuleOp>(getOperation()->clone());
      for (auto func : llvm::make_early_inc_range(part->getOps<func::FuncOp>()))
        if (!keep(func))
          func.erase();
      if (!part->getOps<func::FuncOp>().empty())
        result.push_back(std::move(part));
    };
    add(hasRoles);
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!hasRoles(func))
        add([&](func::FuncOp other) { return other.getName() == func.getName(); });
    return result;
  }

  std::vector<OwningOpRef<ModuleOp>> isolatedOps() {
    std::vector<OwningOpRef<ModuleOp>> result;
    getOperation().walk([&](ShardingRuleOpInterface op) {
      OwningOpRef<ModuleOp> module = ModuleOp::create(op.getLoc());
      OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
      auto func = func::FuncOp::create(
          builder, op.getLoc(), "op",
          builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
      Block *body = func.addEntryBlock();
      builder.setInsertionPointToEnd(body);
      IRMapping mapping;
      mapping.map(op->getOperands(), body->getArguments());
      Operation *clone = builder.clone(*op, mapping);
      // An operand that is given twice becomes two arguments.
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        clone->setOperand(i, body->getArgument(i));
      func::ReturnOp::create(builder, op.getLoc(), clone->getResults());
      result.push_back(std::move(module));
    });
    return result;
  }

  LogicalResult check() {
    Annotator annotator(&getContext(), mesh);
    std::vector<Oracle> oracles;
    for (auto func : subject.getOps<func::FuncOp>()) {
      Oracle oracle{func.getName().str(), {}, {}};
      for (Type type : func.getArgumentTypes())
        oracle.inputs.push_back(randomTensor(cast<RankedTensorType>(type),
                                             seed + oracle.inputs.size(), intBound));
      auto expected = evaluate(func, oracle.inputs, Numerics::Double);
      if (failed(expected))
        return failure();
      oracle.expected = std::move(*expected);
      oracles.push_back(std::move(oracle));
    }
    if (given && failed(checkOne(annotator, oracles, [](ModuleOp) {})))
      return failure();
    if (each && failed(checkEach(annotator, oracles)))
      return failure();
    for (int64_t trial = 0; trial < trials; ++trial) {
      Random random(seed + 1000 * (trial + 1));
      if (failed(checkOne(annotator, oracles, [&](ModuleOp module) {
            annotateAtRandom(annotator, module, random);
          })))
        return failure();
    }
    return success();
  }

  LogicalResult checkEach(const Annotator &annotator, const std::vector<Oracle> &oracles) {
    SmallVector<ShardingRule> rules;
    subject.walk(
        [&](ShardingRuleOpInterface op) { rules.push_back(op.getShardingRule()); });
    for (auto [index, rule] : llvm::enumerate(rules))
      for (const OpSharding &choice : annotator.choices(rule))
        if (failed(checkOne(annotator, oracles, [&, index = index](ModuleOp module) {
              size_t at = 0;
              module.walk([&](ShardingRuleOpInterface op) {
                if (at++ == index)
                  annotator.annotate(op, rules[index], choice);
              });
            })))
          return failure();
    return success();
  }

  static bool followsParameter(graph::RoleKind kind) {
    using graph::RoleKind;
    return kind == RoleKind::Gradient || kind == RoleKind::State || kind == RoleKind::Master ||
           kind == RoleKind::Loss;
  }
  static bool isStored(graph::RoleKind kind) {
    return kind == graph::RoleKind::Parameter || kind == graph::RoleKind::Buffer;
  }

  static void annotateAtRandom(const Annotator &annotator, ModuleOp module, Random &random) {
    uint64_t start = random.below(1 << 30);
    for (auto func : module.getOps<func::FuncOp>()) {
      for (auto [i, type] : llvm::enumerate(func.getArgumentTypes())) {
        // Parameters come in one layout, gradients and state follow them.
        graph::RoleAttr role = graph::getArgRole(func, i);
        if (role && followsParameter(role.getKind()))
          continue;
        Random byName(start + llvm::xxh3_64bits(role ? role.getName() : ""));
        func.setArgAttr(i, dist::DistDialect::kSharding,
                        annotator.randomLayout(cast<RankedTensorType>(type),
                                               role && isStored(role.getKind()) ? byName : random));
      }
      for (auto [i, type] : llvm::enumerate(func.getResultTypes()))
        if (!graph::getResultRole(func, i) && random.below(2))
          func.setResultAttr(i, dist::DistDialect::kSharding,
                             annotator.randomLayout(cast<RankedTensorType>(type), random));
      func.walk([&](ShardingRuleOpInterface op) {
        ShardingRule rule = op.getShardingRule();
        if (random.below(3))
          annotator.annotate(op, rule, annotator.randomChoice(rule, random));
      });
    }
  }

  LogicalResult checkOne(const Annotator &annotator, const std::vector<Oracle> &oracles,
                         function_ref<void(ModuleOp)> annotate) {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>(subject->clone());
    annotator.declareMesh(*module);
    annotate(*module);
    OwningOpRef<ModuleOp> global = cast<ModuleOp>((*module)->clone());
    bool right = succeeded(partition::partition(*module)) && succeeded(mlir::verify(*module)) &&
                 succeeded(partition::verifyPartition(*module));
    for (const Oracle &oracle : oracles)
      right = right && succeeded(compare(module->lookupSymbol<func::FuncOp>(oracle.name), oracle));
    ++tried;
    if (right)
      return success();
    std::string text;
    llvm::raw_string_ostream os(text);
    global->print(os);
    return subject.emitError() << "is partitioned wrongly: " << text;
  }

  LogicalResult compare(func::FuncOp func, const Oracle &oracle) {
    std::vector<Tensors> inputs(mesh.devices());
    for (auto [i, input] : llvm::enumerate(oracle.inputs)) {
      Tensors shards = shard(input, shardingOf(func.getArgAttr(i, dist::DistDialect::kSharding)),
                             mesh);
      for (auto [rank, shard] : llvm::zip_equal(inputs, shards))
        rank.push_back(std::move(shard));
    }
    auto results = evaluateRanks(func, mesh, inputs, Numerics::Double);
    if (failed(results))
      return failure();
    for (auto [i, expected] : llvm::enumerate(oracle.expected)) {
      Tensors ofRanks;
      for (Tensors &rank : *results)
        ofRanks.push_back(std::move(rank[i]));
      auto whole =
          unshard(ofRanks, shardingOf(func.getResultAttr(i, dist::DistDialect::kSharding)), mesh,
                  expected.type, kTolerance);
      if (!whole)
        return func.emitError() << "copies of result " << i << " differ";
      if (double difference = maxDifference(*whole, expected); !(difference <= kTolerance))
        return func.emitError() << "result " << i << " differs by " << difference;
    }
    return success();
  }

  TensorSharding shardingOf(Attribute attr) {
    return *dist::toSharding(cast<dist::ShardingAttr>(attr), mesh);
  }

  static constexpr double kTolerance = 1e-8;
  sharding::Mesh mesh;
  ModuleOp subject;
  int64_t tried = 0;

  ListOption<int64_t> sizes{*this, "mesh", llvm::cl::list_init<int64_t>({2, 2}),
                            llvm::cl::desc("axis sizes, where the module has no mesh")};
  Option<bool> isolate{*this, "isolate", llvm::cl::init(false),
                       llvm::cl::desc("make every op a function of its own")};
  Option<bool> given{*this, "given", llvm::cl::init(false),
                     llvm::cl::desc("try the layouts and choices that the module has")};
  Option<bool> each{*this, "each", llvm::cl::init(true),
                    llvm::cl::desc("try every choice of every op by itself")};
  Option<int64_t> trials{*this, "trials", llvm::cl::init(20),
                         llvm::cl::desc("partitions with everything chosen at random")};
  Option<uint64_t> seed{*this, "seed", llvm::cl::init(1), llvm::cl::desc("of inputs and choices")};
  Option<int64_t> intBound{*this, "int-bound", llvm::cl::init(4),
                           llvm::cl::desc("integers are drawn from [0, bound)")};
};

} // namespace

namespace dtc::test {
void registerPartitionTestPasses() { PassRegistration<CheckPartitionPass>(); }
} // namespace dtc::test
