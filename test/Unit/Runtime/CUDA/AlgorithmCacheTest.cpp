// Which algorithms are kept from run to run, and what is done with files that aren't ours.
#include "AlgorithmCache.h"
#include "ProductTuner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace dtc::rt;
using namespace dtc::rt::cuda;

namespace {

using Places = AlgorithmCache::Places;

class AlgorithmFile : public testing::Test {
protected:
  void SetUp() override { std::filesystem::remove_all(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Places readAgain() const { return AlgorithmCache(folder).read(scope); }
  void write(const std::string &text) const {
    std::filesystem::create_directories(folder);
    std::ofstream(AlgorithmCache(folder).fileOf(scope)) << text;
  }

  const std::string folder = testing::TempDir() + "dtc-algorithms/deep";
  const AlgorithmScope scope{"GPU / 7, sm_90", 130100};
};

} // namespace

TEST_F(AlgorithmFile, PlacesAreKept) {
  EXPECT_EQ(readAgain(), Places());
  AlgorithmCache(folder).add(scope, {{"p", 2}, {"q", 0}});
  EXPECT_EQ(readAgain(), (Places{{"p", 2}, {"q", 0}}));
  EXPECT_EQ(std::filesystem::path(AlgorithmCache(folder).fileOf(scope)).filename(),
            "gpu-7-sm-90-130100.json");
}

/// Two processes begin with an empty file: what the first one wrote stays.
TEST_F(AlgorithmFile, ProcessesJoinWhatTheyFound) {
  AlgorithmCache first(folder), second(folder);
  EXPECT_EQ(first.read(scope), second.read(scope));
  first.add(scope, {{"p", 1}, {"q", 1}});
  second.add(scope, {{"p", 2}, {"r", 2}});
  EXPECT_EQ(readAgain(), (Places{{"p", 1}, {"q", 1}, {"r", 2}}));
}

TEST_F(AlgorithmFile, OtherGpusHaveOtherFiles) {
  AlgorithmCache(folder).add(scope, {{"p", 2}});
  AlgorithmScope newer = scope;
  newer.version = 130200;
  EXPECT_EQ(AlgorithmCache(folder).read(newer), Places());
}

TEST_F(AlgorithmFile, WhatIsNotOursIsPassedOverWithALine) {
  const std::string head = R"({"gpu": "GPU / 7, sm_90", "cublaslt": 130100, "places": )";
  for (const std::string &text :
       {std::string("no json"), std::string(), std::string("[]"), head + "7}",
        head + R"({"p": "2"}})", head + R"({"p": 1e30}})", head + R"({"p": 2.5}})",
        head + R"({"p": {"q": 1}}})",
        std::string(R"({"gpu": "another", "cublaslt": 130100, "places": {"p": 2}})"),
        std::string(R"({"gpu": "GPU / 7, sm_90", "cublaslt": 1, "places": {"p": 2}})"),
        std::string(200000, '[')}) {
    write(text);
    testing::internal::CaptureStderr();
    EXPECT_EQ(readAgain(), Places()) << text.substr(0, 80);
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(said.starts_with("dtc-run: note: ") && said.ends_with("isn't used\n")) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
  testing::internal::CaptureStderr();
  AlgorithmCache(folder).add(scope, {{"p", 1}});
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(readAgain(), (Places{{"p", 1}})) << "a file of ours takes its place";
}

TEST_F(AlgorithmFile, NothingIsKeptWithoutAFolder) {
  AlgorithmCache cache("");
  cache.add(scope, {{"p", 2}});
  EXPECT_EQ(cache.read(scope), (Places{{"p", 2}}));
  EXPECT_EQ(AlgorithmCache("").read(scope), Places());
}

TEST(ProductTuner, TheLowestRankThatKnowsAPlaceCounts) {
  auto agreed = agreePlaces({{{"p", -1}, {"q", -1}}, {{"p", 2}, {"r", -1}}, {{"p", 1}, {"r", -1}}});
  ASSERT_EQ(agreed.size(), 3u);
  EXPECT_EQ(std::pair(agreed["p"].rank, agreed["p"].place), std::pair(1, 2));
  EXPECT_EQ(std::pair(agreed["q"].rank, agreed["q"].place), std::pair(0, -1));
  EXPECT_EQ(std::pair(agreed["r"].rank, agreed["r"].place), std::pair(1, -1));
}

TEST(ProductTuner, OperandsAreAsLargeAsTheirStridesReach) {
  MatmulSpec spec;
  spec.call.a = {fbs::DType::BF16, {2, 4, 3}, {12, 3, 1}};
  spec.call.b = {fbs::DType::BF16, {1, 3, 5}, {99, 8, 1}};
  spec.call.c = {fbs::DType::F32, {2, 4, 5}, {20, 5, 1}};
  EXPECT_EQ(bytesOfAddresses(spec), (std::vector<uint64_t>{48, 42, 160}));
  spec.call.epilogue = fbs::Epilogue::BiasGelu;
  spec.call.hasMatrix = true;
  spec.scratchBytes = 7;
  EXPECT_EQ(bytesOfAddresses(spec), (std::vector<uint64_t>{48, 42, 160, 160, 160, 7}));
}
