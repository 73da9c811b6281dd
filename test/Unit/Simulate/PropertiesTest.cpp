// What holds for every schedule and all costs, tried on random ones.
#include "Costs.h"

#include "dtc/Schedule/Descriptor.h"

#include <algorithm>
#include <map>
#include <random>

using namespace dtc::simulate;
using namespace dtc::schedule;

namespace {

class Random {
public:
  explicit Random(unsigned seed) : generator(seed) {}
  int64_t integer(int64_t low, int64_t high) {
    return low + int64_t(generator() % uint64_t(high - low + 1));
  }
  /// 0 now and then: calls that take no time, ranks that never wait.
  double real(double high) {
    return integer(0, 9) == 0 ? 0 : high * double(generator() % 1000003) / 1000003;
  }

private:
  std::mt19937_64 generator;
};

struct Case {
  ScheduleShape shape;
  Costs costs;
};

Work randomWork(Random &random, bool communicates) {
  Work work{random.real(3), 0, 0};
  if (communicates) {
    work.blocking = random.real(1);
    work.overlapped = random.real(2);
  }
  return work;
}

/// `contends`: messages have bytes, collectives overlap.
Case randomCase(unsigned seed, bool contends) {
  Random random(seed);
  Case made;
  ScheduleShape &shape = made.shape;
  shape.kind = allSchedules()[size_t(random.integer(0, int64_t(allSchedules().size()) - 1))];
  shape.ranks = random.integer(1, 6);
  shape.microbatches = random.integer(1, 12);
  if (describe(shape.kind).mostChunks > 1) {
    shape.chunks = random.integer(describe(shape.kind).fewestChunks,
                                  std::min<int64_t>(3, describe(shape.kind).mostChunks));
    shape.microbatches = shape.ranks * random.integer(1, 3);
  }
  if (describe(shape.kind).limitsKept())
    shape.kept = random.integer(0, 2 * shape.ranks);
  Costs &costs = made.costs;
  for (int64_t stage = 0; stage < shape.stages(); ++stage) {
    StageCost cost;
    for (Work *work : {&cost.forward, &cost.recompute, &cost.inputGrad, &cost.weightGrad})
      *work = randomWork(random, contends);
    cost.savedBytes = double(random.integer(0, 1000));
    cost.keptBytes = double(random.integer(0, 1000));
    cost.forwardTransient = double(random.integer(0, 100));
    cost.backwardTransient = double(random.integer(0, 100));
    if (contends) {
      cost.reductionSeconds = random.real(4);
      cost.reductionOverlap = std::min(1.0, random.real(1.2));
      cost.level = int(random.integer(-1, 1));
    }
    costs.stages.push_back(cost);
  }
  for (int64_t i = 0; i + 1 < shape.stages(); ++i) {
    Boundary boundary;
    boundary.latency = random.real(0.5);
    if (contends) {
      boundary.forwardBytes = double(random.integer(0, 100));
      boundary.backwardBytes = double(random.integer(0, 100));
      boundary.bandwidth = 100;
      boundary.level = int(random.integer(0, 1));
    }
    costs.boundaries.push_back(boundary);
  }
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    costs.ranks.push_back({double(random.integer(0, 1000)), double(random.integer(0, 1000)),
                           randomWork(random, contends), randomWork(random, contends)});
  if (contends) {
    costs.slowdown = {1 + random.real(2), 1 + random.real(2)};
    costs.blockingSends = random.integer(0, 3) == 0;
  }
  costs.jointUpdate = random.integer(0, 1);
  return made;
}

/// The longest path through calls and latencies: what a step takes where
/// nothing is shared and nothing overlaps. Found without events, by going
/// through the lists until nothing is missing.
double longestPath(const Schedule &schedule, const Costs &costs) {
  const ScheduleShape &shape = schedule.shape;
  std::map<std::tuple<int64_t, int32_t, bool>, double> ends; // stage, microbatch, forward
  std::vector<size_t> next(shape.ranks, 0);
  std::vector<double> free;
  for (const RankCost &rank : costs.ranks)
    free.push_back(rank.prologue.compute + rank.prologue.blocking + rank.prologue.overlapped);
  auto latency = [&](int64_t stage) {
    return schedule.placement.staysAfter(stage) ? 0 : costs.boundaries[stage].latency;
  };
  for (int64_t round = 0; round < shape.stages() * shape.microbatches * 3; ++round)
    for (int64_t rank = 0; rank < shape.ranks; ++rank) {
      if (next[rank] == schedule.calls[rank].size())
        continue;
      const Call &call = schedule.calls[rank][next[rank]];
      int64_t stage = schedule.stage(rank, call.chunk);
      const StageCost &cost = costs.stages[stage];
      bool forward = call.pass == Pass::Forward, weights = call.pass == Pass::WeightGrad;
      int64_t before = forward ? stage - 1 : stage + 1;
      double start = free[rank], seconds = 0;
      if (!weights && before >= 0 && before < shape.stages()) {
        auto needed = ends.find({before, call.microbatch, forward});
        if (needed == ends.end())
          continue;
        start = std::max(start, needed->second + latency(std::min(before, stage)));
      }
      if (forward)
        seconds += cost.forward.compute;
      if (call.pass == Pass::Backward || call.pass == Pass::InputGrad)
        seconds += cost.recompute.compute + cost.inputGrad.compute;
      if (call.pass == Pass::Backward || weights)
        seconds += cost.weightGrad.compute;
      free[rank] = start + seconds;
      if (!weights)
        ends[{stage, call.microbatch, forward}] = free[rank];
      ++next[rank];
    }
  double ready = *std::max_element(free.begin(), free.end()), end = 0;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    end = std::max(end, (costs.jointUpdate ? ready : free[rank]) +
                            costs.ranks[rank].update.compute);
  return end;
}

} // namespace

TEST(Properties, WithoutContentionAStepIsItsLongestPath) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    Case made = randomCase(seed, false);
    Timeline timeline = run(made.shape, made.costs);
    double expected = longestPath(*makeSchedule(made.shape), made.costs);
    ASSERT_NEAR(timeline.stepSeconds, expected, 1e-9 * (1 + expected)) << seed;
  }
}

/// Taking all communication away can't make a step longer than it is.
TEST(Properties, ContentionOnlyAdds) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    Case made = randomCase(seed, true);
    double whole = run(made.shape, made.costs).stepSeconds;
    for (StageCost &stage : made.costs.stages) {
      for (Work *work :
           {&stage.forward, &stage.recompute, &stage.inputGrad, &stage.weightGrad})
        work->blocking = work->overlapped = 0;
      stage.reductionSeconds = 0;
    }
    double path = longestPath(*makeSchedule(made.shape), made.costs);
    ASSERT_GE(whole * (1 + 1e-9), path) << seed;
  }
}

TEST(Properties, LowerBoundIsAdmissible) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Case made = randomCase(seed, seed % 4 != 0);
    double bound = lowerBound(made.shape, made.costs);
    ASSERT_GT(bound, 0) << seed;
    ASSERT_LE(bound, run(made.shape, made.costs).stepSeconds) << seed;
  }
}

/// Messages are all that the order of calls doesn't tell.
TEST(Properties, CallsTellTheLeastMemory) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Case made = randomCase(seed, seed % 2 == 0);
    Schedule schedule = *makeSchedule(made.shape);
    Timeline timeline = simulate(schedule, made.costs);
    for (int64_t rank = 0; rank < made.shape.ranks; ++rank) {
      double least = leastPeakBytes(schedule, made.costs, rank);
      ASSERT_LE(least, timeline.ranks[rank].peakBytes) << seed;
      if (seed % 2) // no bytes are sent
        ASSERT_NEAR(least, timeline.ranks[rank].peakBytes, 1e-3) << seed;
    }
  }
}

/// Where stages are alike and communication is free, it is the step itself.
TEST(Properties, LowerBoundIsTightForEqualStages) {
  for (ScheduleKind kind : allSchedules())
    for (int64_t ranks = 1; ranks <= 6; ++ranks)
      for (int64_t groups = 1; groups <= 3; ++groups) {
        ScheduleShape shape{kind, ranks, std::min<int64_t>(3, describe(kind).mostChunks),
                            ranks * groups};
        Costs costs = equalStages(shape);
        double seconds = run(shape, costs).stepSeconds;
        EXPECT_NEAR(lowerBound(shape, costs), seconds, 1e-6) << int(kind) << " " << ranks;
      }
}

/// Compute, exposed communication and idleness make up the step on every rank;
/// the means are those of the ranks.
TEST(Properties, TimesAddUp) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    Case made = randomCase(seed, true);
    Timeline timeline = run(made.shape, made.costs);
    double step = timeline.stepSeconds, idle = 0, exposed = 0;
    for (const RankTimeline &rank : timeline.ranks) {
      ASSERT_NEAR(rank.computeSeconds + rank.exposedSeconds + rank.idleSeconds, step,
                  1e-9 * (1 + step))
          << seed;
      ASSERT_GE(rank.idleSeconds, 0) << seed;
      idle += rank.idleSeconds;
      exposed += rank.exposedSeconds;
    }
    auto ranks = double(timeline.ranks.size());
    ASSERT_NEAR(timeline.bubbleFraction * step, idle / ranks, 1e-9 * (1 + step)) << seed;
    ASSERT_NEAR(timeline.exposedSeconds, exposed / ranks, 1e-9 * (1 + step)) << seed;
  }
}

/// Everything is returned by the end, and the peak is that of the curve and no
/// more than what the slots could hold.
TEST(Properties, MemoryIsReturned) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    Case made = randomCase(seed, true);
    Timeline timeline = run(made.shape, made.costs, true);
    for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
      const RankTimeline &line = timeline.ranks[rank];
      double base = made.costs.ranks[rank].staticBytes, most = 0;
      for (const MemoryPoint &point : line.memory) {
        ASSERT_GE(point.bytes, base) << seed;
        most = std::max(most, point.bytes);
      }
      double last = line.memory.empty() ? base : line.memory.back().bytes;
      ASSERT_EQ(last, base) << seed;
      // Calls of no length leave no point but count.
      ASSERT_GE(line.peakBytes, most) << seed;
    }
  }
}

/// On each stream of a rank one thing happens at a time, in the order of its list.
TEST(Properties, StreamsDoOneThingAtATime) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Case made = randomCase(seed, true);
    Timeline timeline = run(made.shape, made.costs, true);
    std::map<std::pair<int, bool>, double> free;
    std::map<int, size_t> calls;
    auto schedule = *makeSchedule(made.shape);
    for (const Event &event : timeline.events) {
      if (event.kind >= EventKind::SendForward)
        continue;
      bool communicates = event.kind >= EventKind::Overlapped;
      double &end = free[{event.rank, communicates}];
      ASSERT_GE(event.begin, end) << seed;
      end = event.end;
      if (communicates || event.chunk < 0)
        continue;
      const Call &call = schedule.calls[event.rank][calls[event.rank]++];
      ASSERT_EQ(call.chunk, event.chunk) << seed;
      ASSERT_EQ(call.microbatch, event.microbatch) << seed;
    }
    for (int64_t rank = 0; rank < made.shape.ranks; ++rank)
      ASSERT_EQ(calls[int(rank)], schedule.calls[rank].size()) << seed;
  }
}

TEST(Properties, SameInputSameTimeline) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Case made = randomCase(seed, true);
    Timeline a = run(made.shape, made.costs, true), b = run(made.shape, made.costs, true);
    ASSERT_EQ(a.events, b.events);
    ASSERT_EQ(a.ranks, b.ranks);
    ASSERT_EQ(a.stepSeconds, run(made.shape, made.costs).stepSeconds);
  }
}

/// A long step stays exact: 1F1B over 16 ranks, 4 chunks, 256 microbatches.
TEST(Properties, ManyCalls) {
  ScheduleShape shape{ScheduleKind::Interleaved, 16, 4, 256};
  EXPECT_NEAR(run(shape, equalStages(shape)).stepSeconds, 3 * (256 * 4 + 15), 1e-6);
}
