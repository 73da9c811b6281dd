// The search against all that it could have chosen: every SPEC of small problems,
// pinned and predicted. No plan beats the free choice, and none is faster than the
// floor below which the search gave its mesh up.
#include "RandomProblem.h"
#include "Transformer.h"

#include "Planners/Candidates.h"
#include "Planners/Estimate.h"

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
      : problem(problem), on(on), options(optionsFor(devices)), library(problem, on, options),
        facts(problem), estimator(library, problem, facts) {}

  Enumerated run() {
    Candidates all = findCandidates(problem, facts, {}, options,
                                    {int64_t(library.getBlocks().size()), options.devices});
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
  static SearchOptions optionsFor(int64_t devices) {
    SearchOptions options;
    options.devices = devices;
    options.executable = false;
    return options;
  }

  void price(const Degrees &degrees) {
    SearchOptions pinned = options;
    pinned.spec = *parseSpec(specOf(degrees));
    auto found = search(problem, on, pinned);
    if (!found)
      return;
    double perSample = found->predicted.stepSeconds / double(found->problem.globalBatch());
    checkFloor(found->plan.degrees, found->predicted.stepSeconds);
    ++(found->predicted.fits() ? result.fitting : result.tooLarge);
    if (found->predicted.fits() && perSample < result.best) {
      result.best = perSample;
      result.degrees = found->plan.degrees;
    }
  }

  /// Of shardings that are as fast as they can be.
  void checkFloor(const Degrees &degrees, double seconds) {
    std::string error;
    Degrees mesh = degrees;
    mesh.recompute = Recompute::None;
    double floor = estimator.lowerBound(mesh, {}, error);
    EXPECT_EQ(error, "");
    EXPECT_LE(floor, seconds * (1 + 1e-9)) << summary(degrees);
  }

  static std::string specOf(const Degrees &d) {
    auto number = [](const char *key, int64_t value) {
      return std::string(key) + "=" + std::to_string(value) + ",";
    };
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb"};
    static const char *const recomputes[] = {"none", "selective", "full"};
    return number("dp", d.dp) + number("tp", d.tp) + number("pp", d.pp) + number("cp", d.cp) +
           number("ep", d.ep) + number("zero", d.zero) + number("chunks", d.chunks) +
           number("micro_batch", d.microBatch) + "schedule=" + schedules[int(d.schedule)] +
           ",recompute=" + recomputes[int(d.recompute)];
  }

  const Problem &problem;
  const Cluster &on;
  SearchOptions options;
  ShardLibrary library;
  ProblemFacts facts;
  Estimator estimator;
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
    SearchOptions options;
    options.devices = 4;
    options.executable = false;
    // With room for all, and with a part of what that takes.
    auto roomy = search(problem, on, options);
    ASSERT_TRUE(roomy) << roomy.error().message;
    for (double share : {0.0, 0.5, 0.65, 0.8}) {
      if (share > 0)
        on.device.memoryBytes = share * double(roomy->predicted.memory.total());
      auto free = search(problem, on, options);
      ASSERT_TRUE(free) << free.error().message;
      EXPECT_TRUE(free->predicted.fits());
      Enumerated all = Exhaustive(problem, on, 4).run();
      EXPECT_GT(all.fitting, 0);
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
