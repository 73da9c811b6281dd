// What programs hide of tensor parallelism's communication beside products.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Cost/ProductOverlap.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::StepKind;

namespace {

/// A layer over four A100s of a node, whose rings take 16 of 108 multiprocessors and take
/// 1.1 times as long.
struct Layer {
  static constexpr double kSlower = 108.0 / 92, kLonger = 1.1;

  explicit Layer(const Software &software, int64_t multiprocessors = 108)
      : on(cluster("dgx-a100")) {
    on.software = software;
    on.device.multiprocessors = multiprocessors;
    Degrees degrees;
    degrees.tp = 4;
    Planner planner(problem, on, 4);
    std::tie(plan, whole) = planner.planOf(degrees);
    facts.emplace(whole);
    model.emplace(on, 4);
    work.emplace(whole, *facts, *model);
    overlap.emplace(whole, *facts, plan, *model, *work);
  }

  /// Seconds that are left of a collective for what a product reads or makes.
  double exposed(StepKind kind, double seconds, ValueId value, OpId reader) {
    return overlap->exposed(kind, plan.mesh.ofDegree("tp"), seconds, value, reader);
  }
  double secondsOf(OpId op) const {
    return model->opSeconds(work->work(op, plan.ops[op], plan.mesh));
  }
  OpId gradientOf(OpId product, BackwardKind kind) const {
    for (OpId op = 0; op < static_cast<OpId>(whole.ops.size()); ++op)
      if (whole.ops[op].forward == product && whole.ops[op].backward == kind)
        return op;
    ADD_FAILURE() << "no gradient";
    return 0;
  }
  /// The first product of the MLP, whose input no other product reads.
  OpId widening() const {
    for (OpId op = 0; op < static_cast<OpId>(whole.ops.size()); ++op)
      if (const Op &made = whole.ops[op]; made.kind == OpKind::Contraction && !made.backward &&
                                          whole.values[made.operands[1]].name == "h.0.up")
        return op;
    ADD_FAILURE() << "no MLP";
    return 0;
  }
  /// Of a collective that takes `seconds` alone, with so many of a product beside it.
  static double left(double seconds, double beside) {
    double hidden = std::min(kLonger * seconds, kSlower * beside);
    return seconds - hidden / kLonger + hidden * (1 - 1 / kSlower);
  }

  Problem problem = transformer({1, 1024, 16, 1024, 8, 8192}), whole;
  Cluster on;
  Plan plan;
  std::optional<ProblemFacts> facts;
  std::optional<CostModel> model;
  std::optional<OpWork> work;
  std::optional<ProductOverlap> overlap;
};

TEST(ProductOverlap, NothingIsHiddenUnlessTheProgramDoes) {
  Layer layer({});
  OpId up = layer.widening();
  OpId input = layer.gradientOf(up, BackwardKind::InputGrad);
  EXPECT_EQ(layer.exposed(StepKind::AllGather, 1e-4, layer.whole.ops[up].operands[0], up), 1e-4);
  EXPECT_EQ(layer.exposed(StepKind::AllReduce, 1e-4, layer.whole.ops[input].results[0],
                          layer.facts->consumers[layer.whole.ops[input].results[0]].front()),
            1e-4);
}

TEST(ProductOverlap, AGatherHidesBehindAllPartsButTheFirst) {
  Layer layer({.overlapsProducts = true});
  OpId up = layer.widening();
  ValueId read = layer.whole.ops[up].operands[0];
  double product = layer.secondsOf(up);
  EXPECT_NEAR(layer.exposed(StepKind::AllGather, 1, read, up), Layer::left(1, 0.75 * product),
              1e-12);
  EXPECT_EQ(layer.exposed(StepKind::AllGather, 1, read, up), 1) << "it is taken";
  // A sum needs every part.
  EXPECT_EQ(layer.exposed(StepKind::AllReduce, 1, read, up), 1);
}

TEST(ProductOverlap, AShortCollectiveStillSlowsTheProduct) {
  Layer layer({.overlapsProducts = true});
  OpId up = layer.widening();
  double product = layer.secondsOf(up), gather = product / 10;
  double shown = layer.exposed(StepKind::AllGather, gather, layer.whole.ops[up].operands[0], up);
  EXPECT_NEAR(shown, gather * Layer::kLonger * (1 - 1 / Layer::kSlower), 1e-12);
  EXPECT_LT(shown, gather / 5);
}

/// Whose multiprocessors a ring would take all of, or more than there are.
TEST(ProductOverlap, ADeviceMayHaveFewMultiprocessors) {
  for (int64_t multiprocessors : {1, 8, 16}) {
    Layer layer({.overlapsProducts = true}, multiprocessors);
    OpId up = layer.widening();
    ValueId read = layer.whole.ops[up].operands[0];
    double product = layer.secondsOf(up), free = 0.75 * product;
    // While it is hidden the product takes twice as long.
    double hidden = std::min(Layer::kLonger * product, 2 * free);
    EXPECT_NEAR(layer.exposed(StepKind::AllGather, product, read, up),
                std::min(product, product - hidden / Layer::kLonger + hidden / 2), 1e-9 * product)
        << multiprocessors;
  }
}

TEST(ProductOverlap, ThreeQuartersOfAScatterHideBehindAProductInFourParts) {
  Layer layer({.overlapsProducts = true});
  OpId up = layer.widening();
  ValueId made = layer.whole.ops[up].results[0];
  OpId reader = layer.facts->consumers[made].front();
  EXPECT_NEAR(layer.exposed(StepKind::ReduceScatter, 1, made, reader),
              0.25 + Layer::left(0.75, 0.75 * layer.secondsOf(up)), 1e-12);
}

TEST(ProductOverlap, AnInputsGradientIsSummedUpBehindThatOfTheWeight) {
  Layer layer({.asyncInputGradients = true});
  OpId up = layer.widening();
  OpId input = layer.gradientOf(up, BackwardKind::InputGrad);
  double weight = layer.secondsOf(layer.gradientOf(up, BackwardKind::WeightGrad));
  ValueId gradient = layer.whole.ops[input].results[0];
  OpId reader = layer.facts->consumers[gradient].front();
  for (StepKind kind : {StepKind::AllReduce, StepKind::ReduceScatter}) {
    Layer fresh({.asyncInputGradients = true});
    EXPECT_NEAR(fresh.exposed(kind, 1, gradient, reader), Layer::left(1, weight), 1e-12);
  }
  EXPECT_EQ(layer.exposed(StepKind::AllGather, 1, gradient, reader), 1);
  // What forward passes sum up, the next op waits for.
  ValueId made = layer.whole.ops[up].results[0];
  EXPECT_EQ(layer.exposed(StepKind::AllReduce, 1, made, layer.facts->consumers[made].front()), 1);
}

TEST(ProductOverlap, SoStepsAreShorter) {
  Problem problem = transformer({4, 4096, 32, 2048, 4, 32768});
  auto step = [&](Software software, const char *sp) {
    software.gathersWeights = false;
    return predicted(problem, software, 4, std::string("tp=4,recompute=none,sp=") + sp).stepSeconds;
  };
  EXPECT_LT(step({.asyncInputGradients = true}, "off"), 0.99 * step({}, "off"));
  EXPECT_EQ(step({.overlapsProducts = true}, "off"), step({}, "off"))
      << "all-reduces don't come in parts";
  EXPECT_LT(step({.overlapsProducts = true}, "on"), 0.95 * step({}, "on"));
  Software both{.asyncInputGradients = true, .overlapsProducts = true};
  EXPECT_LT(step(both, "on"), 0.99 * step({.overlapsProducts = true}, "on"));
}

} // namespace
