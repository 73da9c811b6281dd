// Whole training steps on all ranks against one rank; a partition that lacks any
// one of its sums is found out.
#include "dtc/Interpreter/Step.h"
#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Partition/Partition.h"
#include "dtc/Training/Train.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;
using interpreter::StepComparison;

namespace {

class StepTest
    : public test::ModuleTest<graph::GraphDialect, dist::DistDialect, arith::ArithDialect,
                              math::MathDialect, func::FuncDialect> {
protected:
  /// The language model of test/Partition/trained.mlir with Megatron's layouts, or another model.
  void build(int64_t microbatches, double clipGradNorm = 1, StringRef file = "trained.mlir") {
    options.microbatches = microbatches;
    options.ignoreIndex = -100;
    global =
        parseSourceFile<ModuleOp>(std::string(DTC_TEST_DIR) + "/Partition/" + file.str(), &context);
    ASSERT_TRUE(global);
    training::TrainOptions train;
    train.numMicrobatches = microbatches;
    train.clipGradNorm = clipGradNorm;
    ASSERT_TRUE(succeeded(training::buildTraining(*global, train))) << errors;
    OpBuilder builder = OpBuilder::atBlockBegin(global->getBody());
    dist::MeshOp::create(builder, global->getLoc(), "mesh", builder.getStrArrayAttr({"dp", "tp"}),
                         ArrayRef<int64_t>{2, 2}, builder.getStrArrayAttr({"dp", "tp"}));
    for (auto func : global->getOps<func::FuncOp>())
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        layOut(func, i);
    local = global->clone();
    ASSERT_TRUE(succeeded(partition::partition(*local))) << errors;
  }

  void layOut(func::FuncOp func, unsigned index) {
    graph::RoleAttr role = graph::getArgRole(func, index);
    if (!role)
      return;
    sharding::Mesh mesh{{{"dp", "dp", 2}, {"tp", "tp", 2}}};
    sharding::TensorSharding layout = sharding::TensorSharding::replicated(
        cast<RankedTensorType>(func.getArgumentTypes()[index]).getRank());
    static const std::map<std::string, int> split = {{"query", 1}, {"key", 1},  {"value", 1},
                                                     {"out", 0},   {"up", 1},   {"bias", 0},
                                                     {"down", 0},  {"embedding", 0}};
    auto found = split.find(role.getName().str());
    if (role.getKind() == graph::RoleKind::Parameter && found != split.end())
      layout.dims[found->second] = {1};
    else if (role.getKind() == graph::RoleKind::Input || role.getKind() == graph::RoleKind::Target)
      layout.dims[0] = {0};
    else if (role.getKind() != graph::RoleKind::Parameter)
      return; // follows its parameter
    func.setArgAttr(index, dist::DistDialect::kSharding,
                    dist::toAttr(&context, FlatSymbolRefAttr::get(&context, "mesh"), layout, mesh));
  }

  /// How the step differs once `change` was made to the partitioned functions.
  template <typename Change> StepComparison compareAfter(Change change) {
    OwningOpRef<ModuleOp> changed = local->clone();
    change(*changed);
    auto compared = interpreter::compareStep(*global, *changed, options);
    EXPECT_TRUE(succeeded(compared)) << errors;
    return succeeded(compared) ? *compared : StepComparison{};
  }

  OwningOpRef<ModuleOp> global, local;
  interpreter::StepOptions options;
};

TEST_F(StepTest, RanksComputeWhatOneComputes) {
  for (int64_t microbatches : {1, 2, 4}) {
    build(microbatches);
    StepComparison same = compareAfter([](ModuleOp) {});
    EXPECT_TRUE(same.isEqual()) << same.worstTensor << " " << same.worst;
    EXPECT_EQ(same.ranks, 4);
    // The count; loss and 9 gradients; parameters, 18 states, loss, norm and what is not finite.
    EXPECT_EQ(same.tensors, 1 + 10 + 9 + 18 + 3);
    EXPECT_LT(same.worst, 1e-12);
  }
}

TEST_F(StepTest, EveryMissingSumIsFound) {
  build(2);
  int64_t sums = 0;
  local->walk([&](dist::AllReduceOp) { ++sums; });
  EXPECT_GE(sums, 6);
  for (int64_t missing = 0; missing < sums; ++missing) {
    StepComparison found = compareAfter([&](ModuleOp module) {
      int64_t index = 0;
      module.walk([&](dist::AllReduceOp op) {
        if (index++ == missing)
          op.replaceAllUsesWith(op.getInputs());
      });
    });
    EXPECT_FALSE(found.isEqual()) << "sum " << missing;
    EXPECT_FALSE(found.worstTensor.empty());
  }
}

TEST_F(StepTest, AWrongFactorIsFoundAndNamed) {
  build(1);
  // The second product of the MLP's backward pass, on the ranks alone.
  StepComparison found = compareAfter([](ModuleOp module) {
    auto func = module.lookupSymbol<func::FuncOp>("loss_and_grads");
    auto results = cast<func::ReturnOp>(func.front().getTerminator());
    for (unsigned i = 0; i < results.getNumOperands(); ++i)
      if (graph::RoleAttr role = graph::getResultRole(func, i);
          role && role.getKind() == graph::RoleKind::Gradient && role.getName() == "down") {
        OpBuilder builder(results);
        Value gradient = results.getOperand(i);
        results.setOperand(i, arith::AddFOp::create(builder, func.getLoc(), gradient, gradient));
      }
  });
  EXPECT_FALSE(found.isEqual());
  EXPECT_NEAR(found.worst, 1, 1e-6); // twice the gradient
  EXPECT_EQ(found.worstTensor, "gradient of down");
}

/// The ranks normalize by the batch where one rank takes the running mean.
TEST_F(StepTest, AFaultOfEvaluationsAloneIsFound) {
  build(1, 1, "batch_norm_running.mlir");
  EXPECT_TRUE(compareAfter([](ModuleOp) {}).isEqual());
  StepComparison found = compareAfter([](ModuleOp module) {
    auto selects = module.lookupSymbol<func::FuncOp>("loss_and_grads").getOps<arith::SelectOp>();
    ASSERT_FALSE(selects.empty());
    arith::SelectOp ofMean = *selects.begin();
    ofMean.getTrueValueMutable().assign(ofMean.getFalseValue());
  });
  EXPECT_FALSE(found.isEqual());
  EXPECT_NE(found.firstWrong.find(", where the step evaluates"), std::string::npos)
      << found.firstWrong;
}

/// The drawn gradients are far below the norm to clip to.
TEST_F(StepTest, AnUpdateThatDoesNotClipIsFound) {
  build(1, 1e6);
  EXPECT_TRUE(compareAfter([](ModuleOp) {}).isEqual());
  StepComparison found = compareAfter([](ModuleOp module) {
    auto updates = module.lookupSymbol<func::FuncOp>("update").getOps<graph::AdamUpdateOp>();
    graph::AdamUpdateOp first = *updates.begin();
    OpBuilder builder(first);
    auto one = builder.getFloatAttr(builder.getF32Type(), 1);
    first.getGradScaleMutable().assign(arith::ConstantOp::create(
        builder, first.getLoc(),
        DenseElementsAttr::get(cast<RankedTensorType>(first.getGradScale().getType()), one)));
  });
  EXPECT_FALSE(found.isEqual());
  EXPECT_NE(found.firstWrong.find(", where gradients are clipped"), std::string::npos)
      << found.firstWrong;
}

/// All drawn gradients are finite.
TEST_F(StepTest, AWrongCountOfInfiniteGradientsIsFound) {
  build(2);
  StepComparison found = compareAfter([](ModuleOp module) {
    auto update = module.lookupSymbol<func::FuncOp>("update");
    Operation *end = update.front().getTerminator();
    for (unsigned i = 0; i < end->getNumOperands(); ++i)
      if (graph::RoleAttr role = graph::getResultRole(update, i);
          role.getKind() == graph::RoleKind::Count) {
        OpBuilder builder(end);
        Value count = end->getOperand(i);
        end->setOperand(i, arith::AddFOp::create(builder, end->getLoc(), count, count));
      }
  });
  EXPECT_FALSE(found.isEqual());
  EXPECT_EQ(found.firstWrong,
            "count of gradients that aren't finite, where gradients aren't finite");
}

/// A gradient's norm, its count of infinite elements and its update all read the sum.
TEST_F(StepTest, EveryReaderOfAnOwnTermIsFound) {
  build(2);
  size_t readers = 0;
  for (size_t wrong = 0; wrong == 0 || wrong < readers; ++wrong) {
    StepComparison found = compareAfter([&](ModuleOp module) {
      readers = 0;
      module.lookupSymbol<func::FuncOp>("update").walk([&](dist::AllReduceOp sum) {
        for (OpResult result : sum->getResults())
          for (OpOperand &use : llvm::make_early_inc_range(result.getUses()))
            if (readers++ == wrong)
              use.set(sum->getOperand(result.getResultNumber()));
      });
    });
    EXPECT_FALSE(found.isEqual()) << "reader " << wrong;
  }
  EXPECT_GT(readers, 20);
}

TEST_F(StepTest, FunctionsMustAgreeOnLayouts) {
  build(1);
  auto func = local->lookupSymbol<func::FuncOp>("update");
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (graph::getArgRole(func, i).getName() == "norm")
      func.setArgAttr(i, dist::DistDialect::kSharding,
                      func.getArgAttr(0, dist::DistDialect::kSharding));
  EXPECT_TRUE(failed(interpreter::compareStep(*global, *local, options)));
  EXPECT_NE(errors.find("'norm'"), std::string::npos) << errors;
}

/// Gradients that ranks add up in half precision, of which fp64 shows nothing.
TEST_F(StepTest, CoarserTypesAreRefused) {
  build(1);
  Type half = Float16Type::get(&context);
  auto pass = local->lookupSymbol<func::FuncOp>("loss_and_grads");
  Operation *end = pass.front().getTerminator();
  for (unsigned i = 0; i < end->getNumOperands(); ++i)
    if (graph::getResultRole(pass, i).getKind() == graph::RoleKind::Gradient) {
      OpBuilder builder(end);
      auto type = cast<RankedTensorType>(end->getOperand(i).getType());
      end->setOperand(
          i, arith::TruncFOp::create(builder, end->getLoc(), type.clone(half), end->getOperand(i)));
    }
  pass.setFunctionType(
      FunctionType::get(&context, pass.getArgumentTypes(), end->getOperandTypes()));
  EXPECT_TRUE(failed(interpreter::compareStep(*global, *local, options)));
  EXPECT_NE(errors.find("has another element type on its ranks: gradient of "), std::string::npos)
      << errors;
}

// An expert takes the first four positive numbers. Of draws 5, 6 and 7 it has fewer.
constexpr const char *kLimited = R"mlir(
dist.mesh @mesh ["dp" = 2]
func.func @forward(%x: tensor<8xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<8xf32> {dtc.role = #dtc.role<output, "y">}) {
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %limit = arith.constant dense<5> : tensor<8xi64>
  %truth = arith.cmpf ogt, %x, %zero : tensor<8xf32>
  %number = arith.extui %truth : tensor<8xi1> to tensor<8xi64>
  %count = dtc.cumsum %number 0 : tensor<8xi64> -> tensor<8xi64>
  %kept = arith.cmpi slt, %count, %limit : tensor<8xi64>
  %y = arith.select %kept, %x, %zero : tensor<8xi1>, tensor<8xf32>
  return %y : tensor<8xf32>
}
)mlir";

TEST_F(StepTest, StepsAreDrawnAgainUntilALimitIsReached) {
  global = parseSourceString<ModuleOp>(kLimited, &context);
  ASSERT_TRUE(global) << errors;
  local = global->clone();
  ASSERT_TRUE(succeeded(partition::partition(*local))) << errors;
  options.seed = 5;
  EXPECT_TRUE(compareAfter([](ModuleOp) {}).isEqual());
  StepComparison found = compareAfter([](ModuleOp module) {
    module.walk([](arith::SelectOp op) { op.replaceAllUsesWith(op.getTrueValue()); });
  });
  EXPECT_FALSE(found.isEqual());
}

} // namespace
