// What a step is spent on: the parts are the whole, and each is where it should be.
#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

Prediction at(const Problem &problem, int64_t devices, const std::string &spec) {
  SearchOptions options;
  options.devices = devices;
  options.spec = *parseSpec("cp=1,ep=1," + spec);
  options.executable = false;
  SearchOutcome result = search(problem, cluster("dgx-h100"), options);
  if (!result)
    ADD_FAILURE() << spec << ": " << result.error().message;
  return result ? result->predicted : Prediction{};
}

double exposed(const Prediction &predicted, const std::string &axis) {
  for (const auto &[name, seconds] : predicted.parts.exposed)
    if (name == axis)
      return seconds;
  return 0;
}

void expectWhole(const Prediction &predicted) {
  const StepParts &parts = predicted.parts;
  EXPECT_NEAR(parts.total(), predicted.stepSeconds, 1e-9 * predicted.stepSeconds);
  EXPECT_NEAR(parts.exposedSeconds(), predicted.communicationSeconds,
              1e-6 * predicted.stepSeconds);
  EXPECT_NEAR(parts.bubble, predicted.bubbleFraction * predicted.stepSeconds,
              1e-9 * predicted.stepSeconds);
  EXPECT_GT(parts.compute, 0);
  EXPECT_GT(parts.update, 0);
}

} // namespace

TEST(StepParts, AreTheStep) {
  Problem problem = transformer({8, 4096, 32, 2048, 64, 50304});
  for (const char *spec : {"dp=16,tp=1,pp=1,zero=3,recompute=none,micro_batch=1",
                           "dp=16,tp=1,pp=1,zero=1,recompute=full,micro_batch=2",
                           "dp=2,tp=8,pp=1,zero=0,recompute=none,micro_batch=1",
                           "dp=2,tp=2,pp=4,zero=1,recompute=none,micro_batch=1",
                           "dp=4,tp=1,pp=4,zero=2,recompute=full,micro_batch=1,schedule=zb",
                           "dp=1,tp=4,pp=4,zero=0,recompute=none,micro_batch=1,"
                           "schedule=interleaved,chunks=2"})
    expectWhole(at(problem, 16, spec));
}

TEST(StepParts, CommunicationBelongsToTheRanksThatMakeIt) {
  Problem problem = transformer({8, 4096, 32, 2048, 64, 50304});
  std::string rest = ",recompute=none,micro_batch=1";
  Prediction data = at(problem, 16, "dp=16,tp=1,pp=1,zero=0" + rest),
             tensor = at(problem, 16, "dp=1,tp=16,pp=1,zero=0" + rest),
             pipeline = at(problem, 8, "dp=1,tp=1,pp=8,zero=0" + rest);
  EXPECT_EQ(data.parts.exposed.size(), 1u);
  EXPECT_GT(exposed(data, "dp"), 0);
  EXPECT_GT(exposed(tensor, "tp"), 0.9 * tensor.parts.exposedSeconds());
  EXPECT_EQ(exposed(tensor, "dp") + exposed(tensor, "pp"), 0);
  EXPECT_EQ(pipeline.parts.exposed.size(), 1u);
  EXPECT_GT(exposed(pipeline, "pp"), 0);
  EXPECT_GT(pipeline.parts.bubble, 0.05 * pipeline.stepSeconds);
  EXPECT_LT(data.parts.bubble, 1e-12);
}

/// Recomputing whole blocks does their forward pass again, and nothing else changes.
TEST(StepParts, RecomputationIsSecondsOfItsOwn) {
  Problem problem = transformer({8, 4096, 32, 2048, 64, 50304});
  std::string rest = "dp=16,tp=1,pp=1,zero=1,micro_batch=1,recompute=";
  Prediction none = at(problem, 16, rest + "none"), full = at(problem, 16, rest + "full");
  EXPECT_EQ(none.parts.recompute, 0);
  EXPECT_GT(full.parts.recompute, 0.2 * none.parts.compute);
  EXPECT_LT(full.parts.recompute, 0.4 * none.parts.compute);
  EXPECT_NEAR(full.parts.compute, none.parts.compute, 0.01 * none.parts.compute);
  EXPECT_EQ(full.parts.update, none.parts.update);
}
