// Why a plan was chosen: what is said of others is what they cost.
#include "Transformer.h"

#include "dtc/Plan/Explain/Explain.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

const Problem &model() {
  static const Problem problem = transformer({8, 4096, 32, 2048, 64, 50304});
  return problem;
}

SearchOptions asked(const std::string &spec) {
  SearchOptions options;
  options.devices = 16;
  options.spec = *parseSpec(spec);
  options.executable = false;
  return options;
}

Prediction predictedFor(const std::string &spec, const Cluster &on = cluster("dgx-h100")) {
  auto found = search(model(), on, asked(spec));
  if (!found)
    ADD_FAILURE() << spec << ": " << found.error().message;
  return found ? found->predicted : Prediction{};
}

Explanation explained(const std::string &spec, const Cluster &on = cluster("dgx-h100")) {
  SearchOptions options = asked(spec);
  auto found = search(model(), on, options);
  if (!found) {
    ADD_FAILURE() << found.error().message;
    return {};
  }
  return explain(model(), on, options, *found);
}

const Change *changeTo(const Explanation &explanation, const std::string &setting) {
  for (const Change &change : explanation.changes)
    if (change.setting == setting)
      return &change;
  return nullptr;
}

} // namespace

TEST(Explain, RunnersUpLoseSomewhere) {
  Explanation explanation = explained("auto");
  ASSERT_FALSE(explanation.runnersUp.empty());
  double last = 0;
  for (const Rival &rival : explanation.runnersUp) {
    EXPECT_TRUE(rival.fits());
    EXPECT_GE(rival.difference.share, last);
    last = rival.difference.share;
    EXPECT_NEAR(rival.difference.parts.total(), rival.difference.seconds,
                1e-9 * explanation.predicted.stepSeconds);
  }
  EXPECT_TRUE(explanation.pins.empty());
  EXPECT_FALSE(explanation.unpinned);
}

TEST(Explain, PinsCostWhatTheSearchLosesByThem) {
  std::string spec = "pp=4,zero=0";
  Explanation explanation = explained(spec);
  double pinned = predictedFor(spec).stepSeconds, without = predictedFor("zero=0").stepSeconds;
  ASSERT_LT(without, pinned);
  ASSERT_EQ(explanation.pins.size(), 2u);
  const PinPrice *pp = nullptr;
  for (const PinPrice &pin : explanation.pins)
    if (pin.pin == "pp=4")
      pp = &pin;
  ASSERT_TRUE(pp && pp->without);
  EXPECT_EQ(pp->without->stepSeconds, without);
  EXPECT_DOUBLE_EQ(pp->without->difference.share, without / pinned - 1);
  EXPECT_EQ(pp->instead, "pp=" + std::to_string(pp->without->degrees.pp));
  ASSERT_TRUE(explanation.unpinned);
  EXPECT_EQ(explanation.unpinned->stepSeconds, predictedFor("auto").stepSeconds);
}

TEST(Explain, WhatTheSearchTakesAnywayIsFree) {
  Degrees free = search(model(), cluster("dgx-h100"), asked("auto"))->plan.degrees;
  Explanation explanation = explained("tp=" + std::to_string(free.tp));
  ASSERT_EQ(explanation.pins.size(), 1u);
  EXPECT_EQ(explanation.pins[0].pin, "tp=" + std::to_string(free.tp));
  EXPECT_FALSE(explanation.pins[0].without);
}

/// One decision otherwise, all else as chosen: what pinning just that predicts.
TEST(Explain, ChangesKeepTheRest) {
  std::string rest = "dp=16,tp=1,pp=1,cp=1,ep=1,micro_batch=1,zero=3";
  Explanation explanation = explained(rest);
  std::string chosen = explanation.chosen.recompute == Recompute::None ? "none" : "full";
  std::string other = chosen == "none" ? "full" : "none";
  const Change *change = changeTo(explanation, "recompute=" + other);
  ASSERT_TRUE(change && change->rival);
  EXPECT_EQ(change->rival->stepSeconds, predictedFor(rest + ",recompute=" + other).stepSeconds);
  EXPECT_FALSE(changeTo(explanation, "recompute=" + chosen));
  EXPECT_FALSE(changeTo(explanation, "zero=2")) << "pinned by hand";
  EXPECT_TRUE(changeTo(explained("dp=16,tp=1,pp=1,cp=1,ep=1,micro_batch=1"), "zero=2"));
}

TEST(Explain, MeshesTradeDataParallelismForOthers) {
  Explanation explanation = explained("zero=1,micro_batch=1");
  const Degrees &chosen = explanation.chosen;
  ASSERT_EQ(chosen.devices(), 16);
  ASSERT_EQ(chosen.dp % 2, 0);
  const Change *change = changeTo(explanation, "tp=" + std::to_string(2 * chosen.tp) +
                                                   " dp=" + std::to_string(chosen.dp / 2));
  ASSERT_TRUE(change && change->rival);
  EXPECT_EQ(change->rival->degrees.devices(), 16);
  EXPECT_EQ(change->rival->degrees.recompute, chosen.recompute);
}

TEST(Explain, WhatDoesNotFitSaysByHowMuch) {
  std::string rest = "dp=16,tp=1,pp=1,cp=1,ep=1,micro_batch=1,zero=1";
  Cluster on = cluster("dgx-h100");
  Prediction full = predictedFor(rest + ",recompute=full", on),
             none = predictedFor(rest + ",recompute=none", on);
  on.device.memoryBytes = double(full.memory.total()) * 1.02;
  ASSERT_GT(double(none.memory.total()), on.device.memoryBytes);
  Explanation explanation = explained(rest, on);
  EXPECT_EQ(explanation.chosen.recompute, Recompute::Full);
  const Change *change = changeTo(explanation, "recompute=none");
  ASSERT_TRUE(change && change->rival);
  EXPECT_FALSE(change->rival->fits());
  EXPECT_GT(change->rival->difference.shortBytes, 0);
  EXPECT_LE(change->rival->difference.shortBytes,
            double(none.memory.total()) - on.device.memoryBytes + 1);
  EXPECT_LT(change->rival->difference.seconds, 0) << "fits no more, but would be faster";
}

/// A plan pinned in full that doesn't fit: letting go of a pin may make one fit.
TEST(Explain, APinCanCostTheFit) {
  std::string rest = "dp=16,tp=1,pp=1,cp=1,ep=1,micro_batch=1,zero=1";
  Cluster on = cluster("dgx-h100");
  on.device.memoryBytes = double(predictedFor(rest + ",recompute=full", on).memory.total()) * 1.02;
  Explanation explanation = explained(rest + ",recompute=none", on);
  EXPECT_FALSE(explanation.predicted.fits());
  for (const PinPrice &pin : explanation.pins)
    if (pin.pin == "recompute=none") {
      ASSERT_TRUE(pin.without);
      EXPECT_TRUE(pin.without->fits());
      EXPECT_EQ(pin.instead, "recompute=full");
    }
}
