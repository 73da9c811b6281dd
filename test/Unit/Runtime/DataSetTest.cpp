#include "TestArtifact.h"

#include "dtc-rt/Files/DataSet.h"

#include <gtest/gtest.h>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

/// A language model: ids and target of 2x3 per microbatch, batch 4, vocabulary 10.
Json languageModel() {
  Json manifest = emptyManifest({{"dp", 2}, {"cp", 3}});
  manifest["global_batch"] = 4;
  manifest["sequence"] = 3;
  manifest["vocabulary"] = 10;
  manifest["loss"] = "cross_entropy";
  for (const char *name : {"ids", "target"})
    manifest["inputs"].push_back({{"name", name}, {"dtype", "I64"}, {"shape", {2, 3}}, {"limit", 10}});
  return manifest;
}

template <typename T>
std::string languageData(const char *dtype, const std::vector<T> &ids,
                         const std::vector<int64_t> &target, Json extra = Json::object()) {
  int64_t samples = static_cast<int64_t>(ids.size()) / 3;
  int64_t split = static_cast<int64_t>(ids.size() * sizeof(T));
  int64_t end = split + static_cast<int64_t>(target.size() * 8);
  Json header = {{"ids", {{"dtype", dtype}, {"shape", {samples, 3}}, {"data_offsets", {0, split}}}},
                 {"target", {{"dtype", "I64"}, {"shape", {target.size() / 3, 3}},
                             {"data_offsets", {split, end}}}}};
  header.update(extra);
  return safetensorsOf(header, bytesOf(ids) + bytesOf(target));
}

Result<DataSet> openData(const std::string &bytes, const Json &manifest,
                         const char *name = "data.safetensors") {
  TemporaryFolder folder;
  writeFile(folder / name, bytes);
  return DataSet::open(folder / name, parsed(manifest));
}

void expectRefused(const std::string &bytes, const std::string &word,
                   const Json &manifest = languageModel(),
                   const char *name = "data.safetensors") {
  Result<DataSet> set = openData(bytes, manifest, name);
  ASSERT_FALSE(set) << word;
  EXPECT_EQ(set.status().category(), ErrorCategory::InputRefused);
  EXPECT_NE(set.status().message().find(word), std::string::npos) << set.status().message();
  EXPECT_NE(set.status().message().find(name), std::string::npos) << set.status().message();
}

std::vector<int64_t> count(int64_t size) {
  std::vector<int64_t> values(size);
  for (int64_t i = 0; i < size; ++i)
    values[i] = i % 10;
  return values;
}

} // namespace

TEST(DataSet, TokensOfMoreBytesAreRefused) {
  std::vector<int32_t> wide;
  std::vector<uint16_t> narrow;
  for (int i = 0; i < 40; ++i) {
    wide.push_back(i % 10);
    narrow.push_back(static_cast<uint16_t>(i % 2 ? 0 : i % 10)); // 0 2 ... is a file of zeros too
  }
  expectRefused(bytesOf(wide), "astype(\"uint16\")", languageModel(), "tokens.bin");
  narrow[1] = 7;
  EXPECT_TRUE(openData(bytesOf(narrow), languageModel(), "tokens.bin"));
  EXPECT_TRUE(openData(std::string(80, '\0'), languageModel(), "tokens.bin"));
}

TEST(DataSet, ReadsTheShardOfAMicrobatch) {
  auto set = openData(languageData("I64", count(15), count(15)), languageModel());
  ASSERT_TRUE(set) << set.status().message();
  EXPECT_EQ(set->numSamples(), 5);
  // dp 1, cp 2: the second sample of the microbatch, its last token.
  Shard shard{{1, 2}, {1, 1}};
  std::vector<int64_t> samples = {4, 3};
  int64_t value = -1;
  ASSERT_TRUE(set->read(0, samples, shard, DType::I64, reinterpret_cast<char *>(&value)).isOk());
  EXPECT_EQ(value, (3 * 3 + 2) % 10);
  Shard rows{{0, 1}, {2, 2}};
  std::vector<int64_t> all(4);
  ASSERT_TRUE(set->read(0, samples, rows, DType::I64, reinterpret_cast<char *>(all.data())).isOk());
  EXPECT_EQ(all, (std::vector<int64_t>{3, 4, 0, 1}));
}

TEST(DataSet, NarrowIdsAreWidened) {
  std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
  auto set = openData(languageData("I32", ids, count(12)), languageModel());
  ASSERT_TRUE(set) << set.status().message();
  std::vector<int64_t> read(3);
  std::vector<int64_t> samples = {2};
  ASSERT_TRUE(set->read(0, samples, Shard{{0, 0}, {1, 3}}, DType::I64,
                        reinterpret_cast<char *>(read.data())).isOk());
  EXPECT_EQ(read, (std::vector<int64_t>{7, 8, 9}));
}

TEST(DataSet, RefusesWhatDoesNotFitTheModel) {
  expectRefused(languageData("F64", std::vector<double>(12), count(12)),
                "ids: has elements F64, the model takes I64; convert them to I64");
  expectRefused(languageData("I64", count(9), count(12)), "another number of samples");
  expectRefused(languageData("I64", count(9), count(9)), "fewer samples");
  Json other = {{"mask", {{"dtype", "I64"}, {"shape", {4, 3}}, {"data_offsets", {0, 96}}}}};
  expectRefused(languageData("I64", count(12), count(12), other), "mask");
  Json shape = {{"ids", {{"dtype", "I64"}, {"shape", {3, 4}}, {"data_offsets", {0, 96}}}}};
  expectRefused(languageData("I64", count(12), count(12), shape), "ids: has the wrong shape 3x4");
  std::string alone = safetensorsOf(
      {{"ids", {{"dtype", "I64"}, {"shape", {4, 3}}, {"data_offsets", {0, 96}}}}},
      bytesOf(count(12)));
  expectRefused(alone, "no array for the model's input target");
}

TEST(DataSet, InferenceIgnoresTheTarget) {
  Json manifest = languageModel();
  manifest["inputs"].erase(1);
  expectRefused(languageData("I64", count(12), count(12)), "not an input", manifest);
  manifest["loss"] = "none";
  EXPECT_TRUE(openData(languageData("I64", count(12), count(12)), manifest));
}

TEST(DataSet, ValuesOutOfRangeAreNamed) {
  std::vector<int64_t> ids = count(12), target = count(12);
  ids[7] = 10;
  target[3] = -100; // ignored
  target[4] = -1;
  auto set = openData(languageData("I64", ids, target), languageModel());
  ASSERT_TRUE(set);
  std::vector<int64_t> samples = {0, 1, 2, 3}, values(12);
  auto read = [&](size_t input) {
    return set->read(input, samples, Shard{{0, 0}, {4, 3}}, DType::I64,
                     reinterpret_cast<char *>(values.data()));
  };
  EXPECT_EQ(read(0).category(), ErrorCategory::InputRefused);
  EXPECT_NE(read(0).message().find("ids: sample 2: is not in [0, 10): 10"), std::string::npos)
      << read(0).message();
  EXPECT_NE(read(1).message().find("target: sample 1: is not in [0, 10): -1"), std::string::npos)
      << read(1).message();
  EXPECT_EQ(set->check(std::vector<int64_t>{3, 2}).message(), read(0).message());
  EXPECT_EQ(set->check(std::vector<int64_t>{1, 2}).message(), read(0).message());
  EXPECT_EQ(set->check(std::vector<int64_t>{1, 3}).message(), read(1).message());
  EXPECT_TRUE(set->check(std::vector<int64_t>{0, 3}).isOk());
}

/// However far behind the first ones of a sample, and of whatever type.
TEST(DataSet, ValuesOutOfRangeOfLongSamplesAreNamed) {
  constexpr int64_t kLength = 1500;
  Json manifest = languageModel();
  for (Json &input : manifest["inputs"])
    input["shape"] = {2, kLength};
  const std::vector<int16_t> whole(4 * kLength, 9);
  for (int64_t at : {0, 511, 512, 1023, 1024, 1499}) {
    std::vector<int16_t> ids = whole;
    ids[2 * kLength + at] = 10;
    const Json type = {{"dtype", "I16"}, {"shape", {4, kLength}}};
    Json header = {{"ids", type}, {"target", type}};
    header["ids"]["data_offsets"] = {0, 8 * kLength};
    header["target"]["data_offsets"] = {8 * kLength, 16 * kLength};
    auto set = openData(safetensorsOf(header, bytesOf(ids) + bytesOf(whole)), manifest);
    ASSERT_TRUE(set) << set.status().message();
    EXPECT_TRUE(set->check(std::vector<int64_t>{0, 1, 3}).isOk());
    EXPECT_NE(set->check(std::vector<int64_t>{2}).message().find("sample 2: is not in [0, 10): 10"),
              std::string::npos)
        << at;
  }
}

TEST(DataSet, IgnoredIsForTargetsOnly) {
  std::vector<int64_t> ids = count(12);
  ids[0] = -100;
  auto set = openData(languageData("I64", ids, count(12)), languageModel());
  ASSERT_TRUE(set);
  std::vector<int64_t> samples = {0}, values(3);
  EXPECT_FALSE(set->read(0, samples, Shard{{0, 0}, {1, 3}}, DType::I64,
                         reinterpret_cast<char *>(values.data())).isOk());
}

TEST(DataSet, TokensShiftTheTarget) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 13; ++i)
    tokens.push_back(static_cast<uint16_t>(i % 10));
  auto set = openData(bytesOf(tokens), languageModel(), "text.bin");
  ASSERT_TRUE(set) << set.status().message();
  EXPECT_EQ(set->numSamples(), 4); // the last target is token 12
  std::vector<int64_t> samples = {3}, ids(3), target(3);
  Shard all{{0, 0}, {1, 3}};
  ASSERT_TRUE(set->read(0, samples, all, DType::I64, reinterpret_cast<char *>(ids.data())).isOk());
  ASSERT_TRUE(
      set->read(1, samples, all, DType::I64, reinterpret_cast<char *>(target.data())).isOk());
  EXPECT_EQ(ids, (std::vector<int64_t>{9, 0, 1}));
  EXPECT_EQ(target, (std::vector<int64_t>{0, 1, 2}));
}

TEST(DataSet, WideTokensForLargeVocabularies) {
  Json manifest = languageModel();
  manifest["vocabulary"] = nullptr; // the input's limit says it
  for (Json &input : manifest["inputs"])
    input["limit"] = 65536;
  std::vector<uint32_t> tokens(13, 65535);
  auto set = openData(bytesOf(tokens), manifest, "text.bin");
  ASSERT_TRUE(set) << set.status().message();
  EXPECT_EQ(set->numSamples(), 4);
}

TEST(DataSet, TokensNeedATokenModel) {
  Json manifest = languageModel();
  expectRefused("odd", "whole number", manifest, "text.bin");
  expectRefused("", "fewer samples", manifest, "text.bin");
  manifest["inputs"].push_back({{"name", "mask"}, {"dtype", "I64"}, {"shape", {2, 3}}, {"limit", nullptr}});
  expectRefused(std::string(26, '\0'), "mask", manifest, "text.bin");
  manifest["sequence"] = nullptr;
  expectRefused(std::string(26, '\0'), "does not take tokens", manifest, "text.bin");
}

TEST(DataSet, OpensTheModelsOfTheTests) {
  Json manifest = emptyManifest();
  manifest["global_batch"] = 8;
  manifest["sequence"] = 32;
  manifest["vocabulary"] = 512;
  manifest["loss"] = "cross_entropy";
  for (const char *name : {"input_ids", "target"})
    manifest["inputs"].push_back({{"name", name}, {"dtype", "I64"}, {"shape", {8, 32}}, {"limit", 512}});
  const std::string models = DTC_TEST_DIR "/models/";
  Manifest known = parsed(manifest);
  for (auto [file, samples] : {std::pair("gpt2.data.safetensors", 80), {"text.bin", 396}}) {
    auto set = DataSet::open(models + file, known);
    ASSERT_TRUE(set) << set.status().message();
    EXPECT_EQ(set->numSamples(), samples);
    // Every token of every sample is one of the vocabulary, or ignored.
    std::vector<int64_t> all(set->numSamples()), values(set->numSamples() * 32);
    for (int64_t i = 0; i < set->numSamples(); ++i)
      all[i] = i;
    for (size_t input : {0, 1}) {
      Status status = set->read(input, all, Shard{{0, 0}, {set->numSamples(), 32}}, DType::I64,
                                reinterpret_cast<char *>(values.data()));
      EXPECT_TRUE(status.isOk()) << status.message();
    }
  }
  EXPECT_FALSE(DataSet::open(models + "mlp.data.safetensors", known));
  EXPECT_FALSE(DataSet::open(models + "gpt2_mask.data.safetensors", known)); // has a mask too
}
