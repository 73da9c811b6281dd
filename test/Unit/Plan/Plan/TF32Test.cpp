#include "dtc/Plan/Plan/TF32.h"

#include "dtc/Plan/Cost/CostModel.h"

#include <gtest/gtest.h>

using namespace dtc::plan;

/// NVIDIA's data sheets, dense.
TEST(TF32, HasTheRatesOfDataSheets) {
  for (auto [name, tflops] : {std::pair("h100", 494.7),
                              {"h200", 494.7},
                              {"a100-80", 156.0},
                              {"b200", 1125.0},
                              {"l4", 60.5},
                              {"a10g", 35.0},
                              {"v100", 15.7}}) {
    Cluster exact = *loadCluster(name), rounding = withTF32(exact);
    EXPECT_NEAR(rounding.device.peak.at(DType::F32) / 1e12, tflops, 0.1) << name;
    EXPECT_EQ(rounding.device.peak.at(DType::BF16), exact.device.peak.at(DType::BF16)) << name;
  }
}

TEST(TF32, MakesProductsOfFp32Faster) {
  LocalWork work{.flops = 2.0 * 8192 * 8192 * 8192, .bytes = 3.0 * 4 * 8192 * 8192};
  work.batch = 1;
  work.m = work.n = work.k = 8192;
  Cluster exact = *loadCluster("dgx-h100");
  const double before = CostModel(exact, 8).opSeconds(work),
               after = CostModel(withTF32(exact), 8).opSeconds(work);
  EXPECT_NEAR(before / after, 494.7 / 67, 0.2);
}

TEST(TF32, LeavesDevicesAloneThatArentFaster) {
  Cluster cluster = *loadCluster("dgx-h100");
  cluster.device.peak = {{DType::F32, 1e12}};
  cluster.device.achieved = {{DType::F32, 0.5e12}};
  cluster.contractions = {{DType::F32, 1, 512, 512, 512, 1e-3}};
  EXPECT_EQ(withTF32(cluster), cluster);
  EXPECT_EQ(withTF32(*loadCluster("dgx-1")), *loadCluster("dgx-1"));
}

TEST(TF32, HasTheMeasuredRate) {
  Cluster cluster = *loadCluster("dgx-h100");
  cluster.device.achieved = {{DType::F32, 50e12}, {DType::BF16, 700e12}};
  cluster.device.achievedTF32 = 410e12;
  EXPECT_EQ(withTF32(cluster).device.achieved.at(DType::F32), 410e12);
  EXPECT_EQ(withTF32(cluster).device.peak.at(DType::F32), 989.5e12 / 2);
  cluster.device.peak = {{DType::F32, 50e12}, {DType::BF16, 700e12}}; // as of an unknown GPU
  EXPECT_EQ(withTF32(cluster).device.peak.at(DType::F32), 410e12);
}

TEST(TF32, MeasuredProductsOfFp32DontCount) {
  Cluster cluster = *loadCluster("dgx-h100");
  cluster.device.achieved = {{DType::F32, 50e12}, {DType::BF16, 700e12}};
  cluster.contractions = {{DType::F32, 1, 512, 512, 512, 1e-3},
                          {DType::BF16, 1, 512, 512, 512, 1e-4}};
  cluster.others = {{loadCluster("dgx-a100")->device, 8, 1, {}}};
  Cluster rounding = withTF32(cluster);
  EXPECT_EQ(rounding.device.achieved.at(DType::F32), 350e12);
  ASSERT_EQ(rounding.contractions.size(), 1u);
  EXPECT_EQ(rounding.contractions[0].type, DType::BF16);
  EXPECT_EQ(rounding.others[0].device.peak.at(DType::F32), 156e12);
}
