// Artifacts that are damaged or meant to harm are refused.
#include "TestArtifact.h"

#include "dtc-rt/CPU/CpuPlatform.h"
#include "dtc-rt/Platforms.h"
#include "dtc-rt/Program/Package.h"
#include "dtc-rt/Program/Sha256.h"

#include <gtest/gtest.h>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

std::string goodArtifact() {
  return artifactOf(emptyManifest({{"dp", 2}}),
                    {{"program/0.bin", "a program"}, {"weights.safetensors", std::string(100, 'w')}});
}

Result<Package> openBytes(const std::string &bytes) {
  TemporaryFolder folder;
  writeFile(folder / "model.dtc", bytes);
  return Package::open(folder / "model.dtc");
}

/// Opens and reads all members, as a run does.
Status useAll(const std::string &bytes) {
  Result<Package> package = openBytes(bytes);
  if (!package)
    return package.status();
  for (const auto &[name, member] : package->manifest().members)
    if (auto read = package->read(name); !read)
      return read.status();
  return Status::ok();
}

void expectRefused(const Json &manifest, const std::string &word) {
  Result<Package> package = openBytes(artifactOf(manifest, {{"program/0.bin", "p"}}));
  ASSERT_FALSE(package) << word;
  EXPECT_EQ(package.status().category(), ErrorCategory::InputRefused);
  EXPECT_NE(package.status().message().find(word), std::string::npos)
      << package.status().message();
  EXPECT_NE(package.status().message().find("model.dtc: manifest.json: "), std::string::npos)
      << package.status().message();
}

} // namespace

TEST(Package, OpensWhatIsWhole) {
  Result<Package> package = openBytes(goodArtifact());
  ASSERT_TRUE(package) << package.status().message();
  EXPECT_EQ(package->manifest().worldSize, 2);
  auto member = package->read("program/0.bin");
  ASSERT_TRUE(member);
  EXPECT_EQ(std::string(member->begin(), member->end()), "a program");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(member->data()) % 64, 0u);
  EXPECT_FALSE(package->read("none"));
}

TEST(Package, EveryTruncationIsRefused) {
  std::string bytes = goodArtifact();
  for (size_t keep = 0; keep < bytes.size(); keep += keep < bytes.size() - 200 ? 13 : 1) {
    Status status = useAll(bytes.substr(0, keep));
    EXPECT_EQ(status.category(), ErrorCategory::InputRefused) << keep;
    EXPECT_NE(status.message().find("model.dtc"), std::string::npos);
  }
}

TEST(Package, FlippedBitsInMembersAreNoticed) {
  std::string bytes = goodArtifact();
  for (const char *content : {"a program", "wwwww", "\"world_size\"", "sha256"}) {
    std::string damaged = bytes;
    damaged[bytes.find(content) + 2] ^= 1;
    Status status = useAll(damaged);
    EXPECT_EQ(status.category(), ErrorCategory::InputRefused) << content;
  }
}

TEST(Package, NoFlippedBitCrashes) {
  std::string bytes = goodArtifact();
  for (size_t at = 0; at < bytes.size(); at += 3) {
    std::string damaged = bytes;
    damaged[at] ^= static_cast<char>(1 << at % 8);
    Status status = useAll(damaged);
    EXPECT_TRUE(status.isOk() || status.category() == ErrorCategory::InputRefused) << at;
  }
}

TEST(Package, RefusesForeignFiles) {
  EXPECT_EQ(useAll("").category(), ErrorCategory::InputRefused);
  EXPECT_EQ(useAll(std::string(1000, 'x')).category(), ErrorCategory::InputRefused);
  EXPECT_NE(useAll(zipOf({{"other", "x"}}, "")).message().find("manifest.json"),
            std::string::npos);
  EXPECT_FALSE(Package::open("/nonexistent/model.dtc"));
}

TEST(Package, RefusesMembersThatAreNotListed) {
  Json manifest = emptyManifest();
  manifest["members"]["missing"] = {{"size", 1}, {"sha256", "x"}};
  std::string text = manifest.dump();
  EXPECT_NE(useAll(zipOf({{"manifest.json", text}}, sha256(text))).message().find("missing"),
            std::string::npos);
  text = emptyManifest().dump();
  EXPECT_NE(useAll(zipOf({{"more", "x"}, {"manifest.json", text}}, sha256(text))).message().find(
                "does not list: more"), std::string::npos);
  EXPECT_NE(useAll(zipOf({{"manifest.json", text}, {"manifest.json", text}}, sha256(text)))
                .message().find("twice"), std::string::npos);
}

TEST(Manifest, RefusesImpossibleValues) {
  auto with = [](const char *path, Json value) {
    Json manifest = emptyManifest({{"dp", 2}});
    manifest[Json::json_pointer(path)] = std::move(value);
    return manifest;
  };
  expectRefused(with("/format", 99), "format 99");
  expectRefused(with("/world_size", 0), "world_size");
  expectRefused(with("/world_size", 3), "every rank");
  expectRefused(with("/world_size", "two"), "world_size");
  expectRefused(with("/roles/0/ranks", {0}), "every rank");
  expectRefused(with("/roles/0/ranks", {0, 0}), "has one: 0");
  expectRefused(with("/roles/0/ranks", {0, 2}), "does not exist");
  expectRefused(with("/roles/0/ranks", {0, -1}), "does not exist");
  expectRefused(with("/roles", Json::array()), "every rank");
  expectRefused(with("/roles/0", "program/0.bin"), "program");
  expectRefused(with("/threads_per_rank", 0), "threads_per_rank");
  expectRefused(with("/global_batch", -1), "global_batch");
  expectRefused(with("/padded_samples", 0), "padded_samples is out of range: 0");
  expectRefused(with("/padded_samples", 1), "no targets that could be ignored");
  expectRefused(with("/learning_rate/schedule", "steps"), "steps");
  expectRefused(with("/loss", "hinge"), "unknown loss: hinge");
  expectRefused(with("/parameters", 3), "parameters");
  Json input = {{"name", "x"}, {"dtype", "F32"}, {"shape", {2, 3}}, {"limit", nullptr}};
  auto withInput = [&](const char *key, Json value) {
    Json changed = input;
    changed[key] = std::move(value);
    return with("/inputs", Json::array({changed}));
  };
  expectRefused(withInput("dtype", "F31"), "F31");
  expectRefused(withInput("shape", {-2, 2}), "shape");
  expectRefused(withInput("shape", {int64_t(1) << 40, int64_t(1) << 40}), "shape");
}

TEST(Manifest, ChecksWeights) {
  Json parameter = {{"name", "w"}, {"aliases", {"v"}}, {"dtype", "F32"}, {"shape", {2, 6}},
                    {"view", {2, 3, 2}}, {"trainable", true}, {"storage_dtype", "BF16"},
                    {"init", nullptr}};
  Json place = {{"file", nullptr}, {"offset", 0}, {"size", 48}, {"dtype", "F32"},
                {"shape", {2, 6}}, {"sha256", nullptr}};
  auto with = [&](const char *path, Json value) {
    Json manifest = emptyManifest({{"dp", 2}});
    manifest["parameters"] = {parameter};
    manifest["weights"]["tensors"]["w"] = place;
    if (*path)
      manifest[Json::json_pointer(path)] = std::move(value);
    return manifest;
  };
  EXPECT_TRUE(openBytes(artifactOf(with("", nullptr), {{"program/0.bin", "p"}})));
  expectRefused(with("/weights/tensors/w/size", 40), "wrong size");
  expectRefused(with("/weights/tensors/w/shape", {6, 2}), "shape");
  expectRefused(with("/weights/tensors/w/dtype", "I32"), "stored");
  expectRefused(with("/weights/tensors/w/file", 0), "not listed");
  expectRefused(with("/weights/tensors/u", place), "unknown parameter: u");
  expectRefused(with("/parameters/0/view", {2, 3, 3}), "view");
  parameter["view"] = {2, 4, 2};
  expectRefused(with("", nullptr), "view"); // the 2x6 elements could be anywhere
  EXPECT_TRUE(
      openBytes(artifactOf(with("/parameters/0/filled", {2, 3, 2}), {{"program/0.bin", "p"}})));
  for (Json wrong : {Json{2, 2, 3}, Json{3, 2, 2}, Json{2, 2, 2}, Json{2, 6}, Json{-2, -3, 2}})
    expectRefused(with("/parameters/0/filled", wrong), wrong[0] == -2 ? "shape" : "view");
  parameter["view"] = {2, 3, 2};
  expectRefused(with("/parameters/0/aliases", {"w"}), "twice");
}

TEST(Manifest, NoDamageCrashes) {
  Json manifest = emptyManifest({{"dp", 2}});
  manifest["inputs"] = {{{"name", "x"}, {"dtype", "F32"}, {"shape", {2, 3}}, {"limit", 4}}};
  std::string text = manifest.dump();
  for (size_t at = 0; at < text.size(); ++at)
    for (char value : {'9', '"', '-', '[', '}', '\xff'}) {
      std::string damaged = text;
      damaged[at] = value;
      Result<Manifest> result = Manifest::parse(damaged);
      if (!result)
        EXPECT_EQ(result.status().category(), ErrorCategory::InputRefused);
    }
}

TEST(Processor, MissingFeaturesDontFit) {
  Json manifest = emptyManifest();
  EXPECT_TRUE(checkProcessor(parsed(manifest)).isOk());
  manifest["processor"]["features"] = {"sse2", "avx9000"};
  Status status = checkProcessor(parsed(manifest));
  EXPECT_EQ(status.category(), ErrorCategory::NoFit);
  EXPECT_NE(status.message().find("avx9000"), std::string::npos);
  EXPECT_EQ(status.message().find("sse2"), std::string::npos);
  manifest["processor"] = {{"arch", "riscv64"}, {"features", Json::array()}};
  EXPECT_EQ(checkProcessor(parsed(manifest)).category(), ErrorCategory::NoFit);
  EXPECT_EQ(openPlatform(parsed(manifest), /*ranksHere=*/1).status().category(),
            ErrorCategory::NoFit);
}

TEST(Platforms, AnUnknownTargetDoesntFit) {
  Json manifest = emptyManifest();
  EXPECT_TRUE(openPlatform(parsed(manifest), /*ranksHere=*/1));
  manifest["target"] = "abacus";
  Status status = openPlatform(parsed(manifest), /*ranksHere=*/1).status();
  EXPECT_EQ(status.category(), ErrorCategory::NoFit);
  EXPECT_NE(status.message().find("abacus"), std::string::npos);
}
