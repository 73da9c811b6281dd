#include "Problems.h"

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;

TEST(PlanYaml, SurvivesWritingAndReading) {
  for (const char *name : {"gpt", "llama_kv2"}) {
    Problem problem = load(name);
    Plan written = plan(problem, 4, "tp=4").plan;
    auto read = planFromYaml(toYaml(written, problem), "plan.yaml", problem);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, written) << name;
  }
}

TEST(PlanYaml, KeepsWhatOthersDontSet) {
  Problem problem = load("gpt");
  Plan written = plan(problem, 4, "tp=4").plan;
  written.degrees.schedule = ScheduleKind::ZeroBubble;
  written.degrees.recompute = Recompute::Selective;
  written.degrees.recomputeBlocks = 1;
  written.degrees.offload = Offload::Optimizer;
  written.degrees.zero = 3;
  written.degrees.order = *orderFromName("dp-pp-tp-cp-ep");
  written.recompute = {{2, Recompute::Full}};
  written.storage[0].storageAxes = {0};
  written.storage[0].stateAxes = {0};
  auto read = planFromYaml(toYaml(written, problem), "plan.yaml", problem);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, written);
}

/// Replaces the first `from` of a valid plan and expects the error.
static void expectRefused(const std::string &from, const std::string &to,
                          const std::string &message,
                          ErrorCategory category = ErrorCategory::InputRefused) {
  Problem problem = load("gpt");
  std::string text = toYaml(plan(problem, 4, "tp=4").plan, problem);
  size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto read = planFromYaml(text, "plan.yaml", problem);
  ASSERT_FALSE(read) << to;
  EXPECT_NE(read.error().message.find(message), std::string::npos) << read.error().message;
  EXPECT_TRUE(read.error().message.starts_with("plan.yaml:")) << read.error().message;
  EXPECT_EQ(read.error().category, category);
}

TEST(PlanYaml, ErrorsNameFileLineAndKey) {
  expectRefused("dp: 1", "dpp: 1", "plan.yaml:2: plan lacks the key: dp");
  expectRefused("  pp: 1", "  ppp: 1", "plan.yaml:4: unknown key in plan: ppp (did you mean pp?)",
                ErrorCategory::Usage);
  expectRefused("tp: 4", "tp: four", "plan.yaml:3: wrong value for tp: four");
  expectRefused("tp: 4", "tp: 0", "tp is too small: 0");
  expectRefused("schedule: 1f1b", "schedule: 2f2b", "unknown schedule: 2f2b");
  expectRefused("order: tp-cp-ep-dp-pp", "order: tp-cp-ep-dp-dp", "unknown order: tp-cp-ep-dp-dp");
  expectRefused("name: wte.weight", "name: wtf.weight", "the model has no parameter");
  expectRefused("dims: [[tp], []]", "dims: [[tq], []]", "axis is not in the mesh: tq");
  expectRefused("dims: [[tp], []]", "dims: [[tp]]", "the tensor has 2 dimensions, not 1");
  expectRefused("op: dtc.gather", "op: dtc.scatter", "the plan is of another model");
  expectRefused("factors: [", "factors: [[], ", "factors, not");
  expectRefused("mesh:", "mesh: 3\nx:", "mesh must be a list");
}

TEST(PlanYaml, APlanOfAnotherModelIsRefused) {
  Problem gpt = load("gpt"), llama = load("llama");
  std::string text = toYaml(plan(gpt, 4, "tp=4").plan, gpt);
  EXPECT_FALSE(planFromYaml(text, "plan.yaml", llama));
  EXPECT_FALSE(planFromYaml("", "plan.yaml", gpt));
  EXPECT_FALSE(planFromYaml("plan: {dp: 1", "plan.yaml", gpt));
}
