// The search against all that it could have chosen: every SPEC of small problems,
// pinned and predicted. No plan beats the free choice, and none is faster than the
// floor below which the search gave its mesh up.
#include "Planner.h"
#include "RandomProblem.h"
#include "Search/Candidates.h"

#include "dtc/Plan/Plan/Settings.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

struct Enumerated {
  double best = std::numeric_limits<double>::infinity(); ///< of those that fit
  Degrees degrees;                                       ///< of the best
  int fitting = 0, tooLarge = 0;
};

/// All plans of a problem on some devices.
class Exhaustive {
public:
  Exhaustive(const Problem &problem, const Cluster &on, int64_t devices)
      : planner(problem, on, devices) {}

  Enumerated run() {
    Candidates all =
        findCandidates(planner.problem, planner.facts, {}, planner.options,
                       {int64_t(planner.shardings.getBlocks().size()), planner.options.devices});
    for (const Degrees &mesh : all.list)
      for (int zero = 0; zero <= (mesh.dp * mesh.cp > 1 ? 3 : 0); ++zero)
        for (Recompute recompute : {Recompute::None, Recompute::Full}) {
          Degrees degrees = mesh;
          degrees.zero = zero;
          degrees.recompute = recompute;
          price(degrees);
        }
    return result;
  }

private:
  void price(const Degrees &degrees) {
    auto pinned = found(planner.problem, planner.options.devices, specOf(degrees), planner.on);
    ASSERT_TRUE(pinned) << summary(degrees) << ": " << pinned.error().message;
    double perSample = pinned->predicted.stepSeconds / double(pinned->problem.globalBatch());
    checkFloor(pinned->plan.degrees, pinned->predicted.stepSeconds);
    ++(pinned->predicted.fits() ? result.fitting : result.tooLarge);
    if (pinned->predicted.fits() && perSample < result.best) {
      result.best = perSample;
      result.degrees = pinned->plan.degrees;
    }
  }

  /// Of shardings that are as fast as they can be.
  void checkFloor(const Degrees &degrees, double seconds) {
    std::string error;
    Degrees mesh = degrees;
    mesh.recompute = Recompute::None;
    double floor = planner.estimator.lowerBound(mesh, {}, error);
    EXPECT_EQ(error, "");
    EXPECT_LE(floor, seconds * (1 + 1e-9)) << summary(degrees);
  }

  /// Orders and offloading stay open, which plans that are pinned in all else don't search.
  static std::string specOf(const Degrees &degrees) {
    Spec spec = pinned(degrees, {});
    std::string text;
    for (const Setting &setting : settings())
      if (auto value = pinnedValue(setting, spec); value && setting.effort != Effort::Placement)
        text += (text.empty() ? "" : ",") + std::string(setting.name) + "=" + *value;
    return text;
  }

  Planner planner;
  Enumerated result;
};

} // namespace

/// Four devices of one rate for all sizes, joined by `bandwidth` bytes/s.
static Cluster plainCluster(double bandwidth) {
  Cluster on = cluster("dgx-h100");
  on.device.architecture = Architecture::None;
  on.device.multiprocessors = 0;
  on.device.achieved[DType::F32] = on.device.achieved[DType::BF16] = 1e11;
  on.levels = {{"link", 0, bandwidth, 1e-6}};
  return on;
}

/// Where memory is short, what is estimated not to fit is not carried out, though
/// it might just fit.
TEST(ExhaustiveSearch, NoPlanBeatsTheFreeChoice) {
  int compared = 0, shorter = 0;
  for (unsigned seed = 0; seed < 13; ++seed) {
    Cluster on = plainCluster(seed % 2 ? 1e9 : 1e11);
    Problem problem = randomProblem(seed, {3, 2, true});
    if (problem.values[0].type != DType::I64)
      continue; // data as large as all else, which no plan can change
    problem.numMicrobatches = 2;
    // With room for all, and with a part of what that takes.
    auto roomy = found(problem, 4, "auto", on);
    ASSERT_TRUE(roomy) << roomy.error().message;
    for (double share : {0.0, 0.5, 0.65, 0.8}) {
      if (share > 0)
        on.device.memoryBytes = share * double(roomy->predicted.memory.total());
      auto free = found(problem, 4, "auto", on);
      ASSERT_TRUE(free) << free.error().message;
      EXPECT_TRUE(free->predicted.fits());
      Enumerated all = Exhaustive(problem, on, 4).run();
      EXPECT_GT(all.fitting, share == 0.5 ? 0 : 20) << seed << " " << share;
      if (share == 0)
        EXPECT_EQ(all.tooLarge, 0) << seed;
      else if (share < 0.8)
        EXPECT_GT(all.tooLarge, 0) << seed << " " << share;
      double perSample = free->predicted.stepSeconds / double(free->problem.globalBatch());
      EXPECT_LE(perSample, all.best * (share > 0 ? 1.01 : 1 + 1e-6))
          << seed << " " << share << ": " << summary(free->plan.degrees) << " instead of "
          << summary(all.degrees);
      shorter += all.tooLarge > all.fitting;
      ++compared;
    }
  }
  EXPECT_GE(compared, 30);
  EXPECT_GE(shorter, 8);
}
