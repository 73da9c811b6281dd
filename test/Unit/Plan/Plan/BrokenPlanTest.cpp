// Every class of broken plan is refused: each field of a plan that uses all there
// is, changed in every way that makes it wrong. And whatever is not refused can be
// predicted.
#include "Transformer.h"

#include "dtc/Plan/Plan/Verify.h"

#include <cmath>
#include <random>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::AxisList;
using dtc::sharding::ReduceKind;

namespace {

/// dp=2 tp=2 pp=2, two chunks a rank, ZeRO-1, one of four blocks recomputed.
class BrokenPlan : public ::testing::Test {
protected:
  BrokenPlan() {
    SearchOptions options;
    options.devices = 8;
    options.executable = false;
    options.spec = *parseSpec("dp=2,tp=2,pp=2,cp=1,ep=1,zero=1,schedule=interleaved,chunks=2,"
                              "recompute=full,micro_batch=2,sp=on");
    auto found = search(transformer({4, 64, 4, 16, 16, 128}), on, options);
    if (!found) {
      ADD_FAILURE() << found.error().message;
      return;
    }
    problem = found->problem;
    good = found->plan;
    good.recompute.resize(1);
    good.degrees.recomputeBlocks = 1;
  }

  /// One line at least, each printable and short.
  void expectRefused(const Plan &broken, const std::string &what) const {
    std::vector<Violation> violations = verify(problem, broken, on);
    EXPECT_FALSE(violations.empty()) << what;
    for (const Violation &violation : violations) {
      EXPECT_FALSE(violation.message.empty()) << what;
      EXPECT_EQ(violation.message.find('\n'), std::string::npos) << what;
    }
  }
  template <typename Break> void refuses(const std::string &what, Break change) const {
    Plan broken = good;
    change(broken);
    ASSERT_FALSE(broken == good) << what;
    expectRefused(broken, what);
  }

  Cluster on = cluster("dgx-h100");
  Problem problem;
  Plan good;
};

const int64_t kOutOfRange[] = {-1, 0, kMostDegree + 1, INT64_MAX, INT64_MIN};

} // namespace

TEST_F(BrokenPlan, IsWholeBeforeItIsBroken) {
  EXPECT_TRUE(verify(problem, good, on).empty()) << verify(problem, good, on)[0].message;
  EXPECT_EQ(good.stages.size(), 4u);
  EXPECT_FALSE(good.storage[0].stateAxes.empty());
  EXPECT_TRUE(good.degrees.sp);
}

TEST_F(BrokenPlan, Degrees) {
  using Number = int64_t Degrees::*;
  const std::pair<const char *, Number> numbers[] = {
      {"dp", &Degrees::dp}, {"tp", &Degrees::tp}, {"pp", &Degrees::pp}, {"cp", &Degrees::cp},
      {"ep", &Degrees::ep}, {"chunks", &Degrees::chunks}, {"micro_batch", &Degrees::microBatch},
      {"num_microbatches", &Degrees::numMicrobatches}};
  for (auto [name, number] : numbers) {
    for (int64_t value : kOutOfRange)
      refuses(name, [&, field = number](Plan &p) { p.degrees.*field = value; });
    for (int64_t times : {2, 3})
      refuses(name, [&, field = number](Plan &p) { p.degrees.*field *= times; });
  }
  for (int zero : {-1, 0, 2, 3, 4, INT32_MAX})
    refuses("zero", [&](Plan &p) { p.degrees.zero = zero; });
  for (int64_t group : {int64_t{-1}, int64_t{1}, int64_t{3}, int64_t{4}, INT64_MAX})
    refuses("zero_group " + std::to_string(group), [&](Plan &p) { p.degrees.zeroGroup = group; });
  for (int64_t blocks : {int64_t{-1}, int64_t{1}, int64_t{4}, INT64_MAX, INT64_MIN})
    refuses("zero_blocks " + std::to_string(blocks),
            [&](Plan &p) { p.degrees.zeroBlocks = blocks; });
  refuses("sp", [](Plan &p) { p.degrees.sp = false; });
  for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::ZeroBubble})
    refuses("schedule", [&](Plan &p) { p.degrees.schedule = kind; });
  for (int64_t blocks : {-1, 0, 2, 5})
    refuses("recompute_blocks", [&](Plan &p) { p.degrees.recomputeBlocks = blocks; });
  for (Recompute kind : {Recompute::None, Recompute::Selective})
    refuses("recompute", [&](Plan &p) { p.degrees.recompute = kind; });
}

TEST_F(BrokenPlan, Mesh) {
  refuses("no axes", [](Plan &p) { p.mesh.axes.clear(); });
  for (size_t i = 0; i < good.mesh.axes.size(); ++i) {
    refuses("without an axis", [&](Plan &p) { p.mesh.axes.erase(p.mesh.axes.begin() + i); });
    refuses("an axis twice", [&](Plan &p) { p.mesh.axes.push_back(p.mesh.axes[i]); });
    refuses("a nameless axis", [&](Plan &p) { p.mesh.axes[i].name = ""; });
    for (const char *degree : {"", "pp", "xp", "cp", "ep"})
      refuses("another degree", [&](Plan &p) { p.mesh.axes[i].degree = degree; });
    for (int64_t size : {int64_t{1}, int64_t{3}, int64_t{4}})
      refuses("another size", [&](Plan &p) { p.mesh.axes[i].size = size; });
    for (int64_t size : kOutOfRange)
      refuses("no size", [&](Plan &p) { p.mesh.axes[i].size = size; });
  }
}

TEST_F(BrokenPlan, Stages) {
  for (size_t i = 0; i < good.stages.size(); ++i) {
    std::string stage = "stage " + std::to_string(i);
    refuses(stage, [&](Plan &p) { p.stages.erase(p.stages.begin() + i); });
    refuses(stage, [&](Plan &p) { p.stages.insert(p.stages.begin() + i, p.stages[i]); });
    for (int64_t step : {-1, 1}) {
      refuses(stage, [&](Plan &p) { p.stages[i].firstOp += step; });
      refuses(stage, [&](Plan &p) { p.stages[i].lastOp += step; });
    }
    for (int64_t op : {int64_t{-1}, INT64_MAX, INT64_MIN}) {
      refuses(stage, [&](Plan &p) { p.stages[i].firstOp = op; });
      refuses(stage, [&](Plan &p) { p.stages[i].lastOp = op; });
    }
    refuses(stage, [&](Plan &p) { p.stages[i].devices.clear(); });
    refuses(stage, [&](Plan &p) { p.stages[i].devices.pop_back(); });
    refuses(stage, [&](Plan &p) { p.stages[i].devices.push_back(99); });
    refuses(stage, [&](Plan &p) { p.stages[i].devices = p.stages[(i + 1) % 2].devices; });
    for (int64_t device : {int64_t{-1}, int64_t{8}, INT64_MAX})
      refuses(stage + ", device " + std::to_string(device), [&](Plan &p) {
        for (size_t chunk = i % 2; chunk < 4; chunk += 2) // of all stages of the rank
          p.stages[chunk].devices[1] = device;
      });
    refuses(stage, [&](Plan &p) { p.stages[i].devices[1] = p.stages[i].devices[0]; });
  }
}

TEST_F(BrokenPlan, Ops) {
  refuses("an op fewer", [](Plan &p) { p.ops.pop_back(); });
  refuses("an op more", [](Plan &p) { p.ops.push_back({}); });
  for (size_t id = 0; id < good.ops.size(); ++id) {
    std::string op = "op " + std::to_string(id) + " " + problem.ops[id].name;
    auto &factors = good.ops[id].factors;
    if (!factors.empty())
      refuses(op, [&](Plan &p) { p.ops[id].factors.pop_back(); });
    refuses(op, [&](Plan &p) { p.ops[id].factors.emplace_back(); });
    for (size_t f = 0; f < factors.size(); ++f) {
      for (int axis : {-1, 2, 1 << 30})
        refuses(op, [&](Plan &p) { p.ops[id].factors[f].push_back(axis); });
      refuses(op, [&](Plan &p) { p.ops[id].factors[f] = {0, 0}; });
    }
    for (int set : {-1, 99})
      refuses(op, [&](Plan &p) { p.ops[id].pending.push_back({0, set}); });
    refuses(op, [&](Plan &p) { p.ops[id].pending.push_back({7, 0}); });
  }
}

TEST_F(BrokenPlan, Arguments) {
  for (auto id : {int64_t{-1}, problem.arguments, int64_t{1} << 40})
    refuses("no argument", [&](Plan &p) { p.arguments[id] = {}; });
  for (const auto &[value, sharding] : good.arguments) {
    std::string name = "argument " + std::to_string(value);
    refuses(name, [&, id = value](Plan &p) { p.arguments.erase(id); });
    refuses(name, [&, id = value](Plan &p) { p.arguments[id].dims.emplace_back(); });
    refuses(name, [&, id = value](Plan &p) { p.arguments[id].dims.clear(); });
    refuses(name, [&, id = value](Plan &p) {
      p.arguments[id].partial.push_back({1, ReduceKind::Max});
    });
    for (AxisList axes : {AxisList{-1}, {2}, {0, 0}})
      refuses(name, [&, id = value](Plan &p) { p.arguments[id].dims[0] = axes; });
  }
}

TEST_F(BrokenPlan, Storage) {
  for (size_t i = 0; i < good.storage.size(); ++i) {
    std::string name = good.storage[i].parameter;
    refuses(name, [&](Plan &p) { p.storage.erase(p.storage.begin() + i); });
    refuses(name, [&](Plan &p) { p.storage.push_back(p.storage[i]); });
    refuses(name, [&](Plan &p) { p.storage[i].parameter += "x"; });
    refuses(name, [&](Plan &p) { p.storage[i].use.dims.emplace_back(); });
    refuses(name, [&](Plan &p) { p.storage[i].use.partial = {{1, ReduceKind::Sum}}; });
    for (auto axes : {&ParameterStorage::stateAxes, &ParameterStorage::gradientAxes,
                      &ParameterStorage::storageAxes})
      for (AxisList list : {AxisList{-1}, {2}, {1}, {0, 0}, {0, 1}})
        refuses(name, [&](Plan &p) { p.storage[i].*axes = list; });
    refuses(name, [&](Plan &p) { p.storage[i].gradientAxes = {0}; });
    refuses(name, [&](Plan &p) { p.storage[i].storageAxes = {0}; });
  }
  refuses("states of all whole", [](Plan &p) {
    for (ParameterStorage &storage : p.storage)
      storage.stateAxes.clear();
  });
}

TEST_F(BrokenPlan, Recomputation) {
  for (int64_t block : {int64_t{-1}, int64_t{4}, INT64_MAX})
    refuses("no block", [&](Plan &p) { p.recompute[0].block = block; });
  refuses("a block twice", [](Plan &p) { p.recompute.push_back(p.recompute[0]); });
  refuses("none", [](Plan &p) { p.recompute.clear(); });
  refuses("another kind", [](Plan &p) { p.recompute[0].kind = Recompute::Selective; });
}

/// Random changes of shardings: what isn't refused can be carried out.
TEST_F(BrokenPlan, WhatPassesCanBePredicted) {
  std::mt19937 random(1);
  auto below = [&](size_t n) { return static_cast<int>(random() % n); };
  int passed = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    Plan plan = good;
    for (int change = 1 + below(2); change > 0; --change) {
      dtc::sharding::OpSharding &op = plan.ops[below(plan.ops.size())];
      if (int kind = below(4); kind == 0)
        op.pending = {{below(2), below(2)}};
      else if (!op.factors.empty())
        op.factors[below(op.factors.size())] = kind == 1 ? AxisList{} : AxisList{below(2)};
    }
    if (!verify(problem, plan, on).empty()) {
      ++refused;
      continue;
    }
    ++passed;
    Prediction predicted = predict(problem, plan, on);
    EXPECT_TRUE(std::isfinite(predicted.stepSeconds) && predicted.stepSeconds > 0);
    EXPECT_GT(predicted.memory.total(), 0);
  }
  EXPECT_GT(passed, 30);
  EXPECT_GT(refused, 30);
}
