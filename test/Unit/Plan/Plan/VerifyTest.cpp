#include "Problems.h"
#include "Transformer.h"

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/Verify.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

class VerifyTest : public ::testing::Test {
protected:
  Problem problem = load("gpt");
  Cluster on = cluster("dgx-h100");
  Plan good = plan(problem, 4, "tp=4").plan;

  OpId find(const std::string &name) const {
    for (size_t i = 0; i < problem.ops.size(); ++i)
      if (problem.ops[i].name == name)
        return static_cast<OpId>(i);
    return -1;
  }
  ValueId argument(const std::string &name) const {
    for (ValueId value = 0; value < problem.arguments; ++value)
      if (problem.values[value].name == name)
        return value;
    return -1;
  }

  /// Breaks the plan and expects a violation that says so, in one line.
  template <typename Mutate> void expect(const std::string &message, Mutate mutate) {
    expectOf(good, message, mutate);
  }
  template <typename Mutate>
  void expectOf(Plan broken, const std::string &message, Mutate mutate) {
    mutate(broken);
    std::vector<Violation> violations = verify(problem, broken, on);
    bool found = false;
    std::string all;
    for (const Violation &violation : violations) {
      EXPECT_EQ(violation.message.find('\n'), std::string::npos);
      found |= violation.message.find(message) != std::string::npos;
      all += violation.message + "\n";
    }
    EXPECT_TRUE(found) << "expected: " << message << "\nfound: " << all;
  }
};

} // namespace

TEST_F(VerifyTest, AcceptsWhatThePlannerMakes) {
  EXPECT_TRUE(verify(problem, good, on).empty());
}

TEST_F(VerifyTest, Degrees) {
  expect("degree is out of range: dp=0", [](Plan &p) { p.degrees.dp = 0; });
  expect("mesh has tp=4, the plan's degree is 2", [](Plan &p) { p.degrees.tp = 2; });
  expect("another number of microbatches", [](Plan &p) { p.degrees.numMicrobatches = 2; });
  expect("zero must be 0 to 3: 7", [](Plan &p) { p.degrees.zero = 7; });
  expect("micro_batch * dp * ep is not the batch", [](Plan &p) { p.degrees.dp = 2; });
  on.nodes = 1;
  on.devicesPerNode = 2;
  expect("more devices than the cluster has: 4", [](Plan &) {});
}

/// Processors have a second arena in the memory that they have.
TEST_F(VerifyTest, OffloadIsForAllDevices) {
  good.degrees.offload = Offload::Optimizer;
  EXPECT_TRUE(verify(problem, good, on).empty());
  on.device.multiprocessors = 0;
  EXPECT_TRUE(verify(problem, good, on).empty());
}

TEST_F(VerifyTest, Order) {
  good.degrees.cp = 2;
  good.degrees.tp = 2;
  good.mesh.axes = {{"cp", "cp", 2}, {"tp", "tp", 2}};
  expect("order doesn't have each axis once: tp-tp-ep-dp-pp",
         [](Plan &p) { p.degrees.order[1] = Axis::TP; });
  expect("mesh axis cp lies at strides of 2, in the plan's order they are 1",
         [](Plan &p) { p.degrees.order = *orderFromName("cp-tp-ep-dp-pp"); });
  auto swap = [](Plan &p) {
    p.degrees.order = *orderFromName("cp-tp-ep-dp-pp");
    setStrides(p.mesh, stridesOf(p.degrees));
  };
  expect("stage 0 has rank 1 on device 1, order=cp-tp-ep-dp-pp puts it on 2", swap);
  on.others = {{on.device, 2, 2, {}}};
  on.nodes = 2;
  on.devicesPerNode = 2;
  expect("axes have the default order alone: order=cp-tp-ep-dp-pp", swap);
}

TEST_F(VerifyTest, Devices) {
  expect("stage 0 has rank 2 on device 3, order=tp-cp-ep-dp-pp puts it on 2",
         [](Plan &p) { std::swap(p.stages[0].devices[2], p.stages[0].devices[3]); });
}

TEST_F(VerifyTest, Mesh) {
  expect("two axes of the mesh have the name: tp",
         [](Plan &p) { p.mesh.axes.push_back({"tp", "tp", 1}); });
  expect("belongs to no degree of a stage: xp",
         [](Plan &p) { p.mesh.axes.push_back({"xp", "xp", 1}); });
  expect("mesh axis tp has size 0", [](Plan &p) { p.mesh.axes[0].size = 0; });
  expect("mesh has too many devices",
         [](Plan &p) { p.mesh.axes = {{"dp", "dp", 1 << 20}, {"tp", "tp", 1 << 20}}; });
}

TEST_F(VerifyTest, Stages) {
  expect("plan has no stage", [](Plan &p) { p.stages.clear(); });
  expect("names 3 devices, its mesh has 4", [](Plan &p) { p.stages[0].devices.pop_back(); });
  expect("names a device that is taken", [](Plan &p) { p.stages[0].devices[1] = 0; });
  expect("doesn't follow the one before", [](Plan &p) { p.stages[0].firstOp = 1; });
  expect("doesn't follow the one before", [](Plan &p) { p.stages[0].lastOp = 100000; });
  expect("no stage runs the op", [](Plan &p) { p.stages[0].lastOp = 3; });
}

TEST_F(VerifyTest, Pipelines) {
  problem.numMicrobatches = 4;
  Plan pipeline = interleaved(good, 4);
  EXPECT_TRUE(verify(problem, pipeline, on).empty());
  auto expectBroken = [&](const std::string &message, auto mutate) {
    expectOf(pipeline, message, mutate);
  };
  expectBroken("plan must have pp * chunks = 4 stages, got 3", [](Plan &p) {
    p.stages.pop_back();
    p.stages.back().lastOp = 100;
  });
  expectBroken("stage 2 isn't on the devices of its rank's stage 0",
               [](Plan &p) { p.stages[2].devices[3] = 8; });
  expectBroken("stage 1 names a device that is taken or none: 3",
               [](Plan &p) { p.stages[1].devices[0] = p.stages[3].devices[0] = 3; });
  expectBroken("there is no such schedule: schedule=1f1b has one chunk a rank, got 2",
               [](Plan &p) { p.degrees.schedule = ScheduleKind::OneFOneB; });
}

TEST_F(VerifyTest, Arguments) {
  ValueId weight = argument("h.0.mlp.c_fc.weight");
  expect("plan has no layout for argument 'h.0.mlp.c_fc.weight'",
         [&](Plan &p) { p.arguments.erase(weight); });
  expect("lays out a value that is no argument: 100",
         [](Plan &p) { p.arguments[100] = {}; });
  expect("sharding has 1 dimensions, the tensor 2",
         [&](Plan &p) { p.arguments[weight].dims.pop_back(); });
  expect("axis is not in the mesh: 9", [&](Plan &p) { p.arguments[weight].dims[0] = {9}; });
  expect("axis is used twice: tp", [&](Plan &p) { p.arguments[weight].dims = {{0}, {0}}; });
  expect("can't be a pending sum", [&](Plan &p) {
    p.arguments[weight].dims = {{}, {}};
    p.arguments[weight].partial = {{0, dtc::sharding::ReduceKind::Sum}};
  });
}

TEST_F(VerifyTest, Storage) {
  expect("plan has no storage for the parameter: wte.weight", [](Plan &p) {
    std::erase_if(p.storage, [](auto &s) { return s.parameter == "wte.weight"; });
  });
  expect("plan stores a parameter twice", [](Plan &p) { p.storage.push_back(p.storage[0]); });
  expect("stores a parameter that isn't trained: nothing",
         [](Plan &p) { p.storage[0].parameter = "nothing"; });
  expect("storage and argument of a parameter differ", [&](Plan &p) {
    for (ParameterStorage &storage : p.storage)
      if (storage.parameter == "wte.weight")
        storage.use.dims = {{}, {}};
  });
  expect("uses an axis that isn't free", [&](Plan &p) { p.storage[0].stateAxes = {5}; });
}

TEST_F(VerifyTest, Ops) {
  OpId contract = find("dtc.contract");
  expect("plan shards 3 ops", [](Plan &p) { p.ops.resize(3); });
  expect("sharding has 1 factors", [&](Plan &p) { p.ops[contract].factors.resize(1); });
  expect("axis is used twice: tp", [&](Plan &p) {
    for (auto &axes : p.ops[contract].factors)
      axes = {0};
  });
  expect("axis is not in the mesh: 7", [&](Plan &p) { p.ops[contract].factors[0] = {7}; });
  expect("no such linear set: 9", [&](Plan &p) {
    for (auto &axes : p.ops[contract].factors)
      axes.clear();
    p.ops[contract].pending = {{0, 9}};
  });
  // 2,048 queries under a causal mask.
  OpId attention = find("dtc.attention");
  expect("can't be split along a dimension that it reduces inside", [&](Plan &p) {
    for (auto &axes : p.ops[attention].factors)
      axes.clear();
    for (size_t f = 0; f < problem.ops[attention].rule->factors.size(); ++f)
      if (problem.ops[attention].rule->factors[f].kind == dtc::sharding::FactorKind::Rounds &&
          p.ops[attention].factors[0].empty())
        p.ops[attention].factors[f] = {0}, f = 100;
  });
}

TEST_F(VerifyTest, ASumThatIsNotPendingCannotBecomeSo) {
  OpId add = find("arith.addf");
  expect("cannot bring a tensor", [&](Plan &p) {
    for (auto &axes : p.ops[add].factors)
      axes.clear();
    p.ops[add].pending = {{0, 0}};
  });
}

TEST_F(VerifyTest, ASumOfGradientsCannotPendWhereItsTermsDoNot) {
  OpId sum = find("dtc.sum");
  expect("dtc.sum: cannot bring a tensor", [&](Plan &p) {
    for (auto &axes : p.ops[sum].factors)
      axes.clear();
    p.ops[sum].pending = {{0, 0}};
  });
}

TEST_F(VerifyTest, AGradientLeavesAsItsParameter) {
  auto gradientOf = [&](const std::string &name) {
    return std::find_if(problem.results.begin(), problem.results.end(),
                        [&](const FunctionResult &result) {
                          return result.kind == ResultKind::Gradient && result.name == name;
                        });
  };
  EXPECT_TRUE(verify(problem, good, on).empty());
  auto bias = gradientOf("h.0.ln_1.bias"), table = gradientOf("wte.weight");
  ASSERT_TRUE(bias != problem.results.end() && table != problem.results.end());
  bias->value = table->value;
  expect("cannot bring a tensor", [](Plan &) {});
}

TEST_F(VerifyTest, Recomputation) {
  expect("plan recomputes a block that the model lacks: 7",
         [](Plan &p) { p.recompute = {{7, Recompute::Full}}; });
  expect("plan recomputes a block that the model lacks: -1",
         [](Plan &p) { p.recompute = {{-1, Recompute::Full}}; });
}

TEST_F(VerifyTest, RecomputationIsWhatTheDegreesSay) {
  problem = transformer({4, 64, 4, 16, 4, 128});
  auto found = search(problem, on, {.devices = 4, .spec = *parseSpec("tp=4,recompute=full"),
                                    .executable = false});
  ASSERT_TRUE(found);
  Plan again = found->plan;
  EXPECT_TRUE(verify(problem, again, on).empty());
  expectOf(again, "plan says recompute=full, its blocks have none",
           [](Plan &p) { p.recompute.clear(); });
  expectOf(again, "plan says recompute=none, its blocks have full",
           [](Plan &p) { p.degrees.recompute = Recompute::None; });
  expectOf(again, "plan says that 3 blocks are recomputed, it names 2",
           [](Plan &p) { p.recompute.pop_back(); });
  expectOf(again, "plan says that 2 blocks are recomputed, it names 3",
           [](Plan &p) { p.degrees.recomputeBlocks = 2; });
  expectOf(again, "block 1 isn't recomputed as the plan says: selective",
           [](Plan &p) { p.recompute[1].kind = Recompute::Selective; });
  again.degrees.recomputeBlocks = 2;
  again.recompute.pop_back();
  EXPECT_TRUE(verify(problem, again, on).empty());
}

TEST_F(VerifyTest, BlocksAreStoredAsTheDegreesSay) {
  SearchOptions options{.devices = 4, .spec = *parseSpec("dp=4,zero=3,recompute=none"),
                        .executable = false};
  auto found = search(transformer({4, 64, 4, 16, 16, 128}), on, options);
  ASSERT_TRUE(found);
  problem = found->problem;
  ProblemFacts facts(problem);
  Block first = findBlocks(problem, facts)[0];
  auto storeRestByTwo = [&](Plan &p) {
    for (ParameterStorage &storage : p.storage)
      for (ValueId value = 0; value < problem.arguments; ++value)
        if (OpId reader = facts.consumers[value].empty() ? -1 : facts.consumers[value][0];
            problem.values[value].name == storage.parameter &&
            (reader < first.first || reader > first.last))
          storage.storageAxes.clear();
  };
  expectOf(found->plan, "is that of zero=2, the plan's is 3", storeRestByTwo);
  Plan mixed = found->plan;
  storeRestByTwo(mixed);
  mixed.degrees.zeroBlocks = 1;
  EXPECT_TRUE(verify(problem, mixed, on).empty());
  expectOf(mixed, "plan says that 2 blocks are stored by zero=3, by its storage it is 1",
           [](Plan &p) { p.degrees.zeroBlocks = 2; });
  expectOf(mixed, "not by zero=1: 1", [](Plan &p) { p.degrees.zero = 1; });
  expectOf(mixed, "not by zero=3: -1", [](Plan &p) { p.degrees.zeroBlocks = -1; });
  expectOf(mixed, "is that of zero=1, the plan's is 3", [](Plan &p) {
    for (ParameterStorage &storage : p.storage)
      if (storage.storageAxes.empty())
        storage.gradientAxes.clear();
  });
  expectOf(mixed, "stages with meshes of their own are stored by one level of ZeRO, the plan has "
                  "zero_blocks=1", [](Plan &p) {
    p.degrees.groups = {{.pp = 1, .dp = p.degrees.dp, .tp = p.degrees.tp, .sp = p.degrees.sp,
                         .microBatch = p.degrees.microBatch}};
  });
}

TEST_F(VerifyTest, StorageIsThatOfAZeroLevel) {
  problem.batch = 4; // of one sample each, as far as degrees go
  good.degrees.dp = 4;
  good.degrees.tp = 1;
  good.mesh.axes = {{"dp", "dp", 4}};
  auto everywhere = [](Plan &p) {
    for (ParameterStorage &storage : p.storage)
      for (auto &axes : storage.use.dims)
        axes.clear();
  };
  expect("is that of zero=1, the plan's is 0", [&](Plan &p) {
    everywhere(p);
    p.storage[0].stateAxes = {0};
  });
  expect("plan says zero=3, its storage is that of zero=0", [&](Plan &p) {
    everywhere(p);
    p.degrees.zero = 3;
  });
  expect("is shared by 4 ranks, by the plan's degrees it is 2", [&](Plan &p) {
    everywhere(p);
    p.degrees.zero = 1;
    p.degrees.zeroGroup = 2;
    p.storage[0].stateAxes = {0};
  });
  expect("zero_group doesn't divide dp=4: 3", [&](Plan &p) { p.degrees.zeroGroup = 3; });
  expect("parameters are split where their gradients or states aren't", [&](Plan &p) {
    everywhere(p);
    p.degrees.zero = 3;
    p.storage[0].storageAxes = {0};
  });
  expect("is split over an axis of another kind: 0", [&](Plan &p) {
    everywhere(p);
    p.mesh.axes[0] = {"tp", "tp", 4};
    p.degrees.zero = 1;
    p.storage[0].stateAxes = {0};
  });
}
