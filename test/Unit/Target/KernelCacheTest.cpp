// What is kept between compilations: found again by its key alone, unless it is damaged.
#include "dtc/Target/KernelCache.h"
#include "dtc/Target/TemporaryFolder.h"

#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

using dtc::target::KernelCache;

namespace {

class KernelCacheTest : public testing::Test {
protected:
  void SetUp() override { use(folder.file("cache")); }
  void TearDown() override { unsetenv("DTC_KERNEL_CACHE"); }

  static void use(const std::string &path) { setenv("DTC_KERNEL_CACHE", path.c_str(), 1); }

  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> paths;
    for (const auto &entry : std::filesystem::directory_iterator(folder.file("cache")))
      if (entry.path().filename().string().starts_with("llvmcache-"))
        paths.push_back(entry.path());
    return paths;
  }

  dtc::target::TemporaryFolder folder;
  const std::vector<char> code = {'c', 'o', 'd', 'e', '\0', '\n'};
};

TEST_F(KernelCacheTest, FindsWhatAnotherOneKept) {
  std::string key = KernelCache::keyOf({"a"});
  {
    KernelCache cache;
    EXPECT_EQ(cache.find(key), std::nullopt);
    cache.keep(key, code);
    EXPECT_EQ(cache.find(key), code);
  }
  EXPECT_EQ(KernelCache().find(key), code);
  EXPECT_EQ(KernelCache().find(KernelCache::keyOf({"b"})), std::nullopt);
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(KernelCacheTest, EachPartOfAKeyCounts) {
  EXPECT_EQ(KernelCache::keyOf({"ab", "c"}), KernelCache::keyOf({"ab", "c"}));
  EXPECT_NE(KernelCache::keyOf({"ab", "c"}), KernelCache::keyOf({"a", "bc"}));
  EXPECT_NE(KernelCache::keyOf({"ab", "c"}), KernelCache::keyOf({"ab", "c", ""}));
  EXPECT_EQ(KernelCache::keyOf({"a"}).size(), 64u);
}

TEST_F(KernelCacheTest, DamageCountsAsNone) {
  std::string key = KernelCache::keyOf({"a"});
  KernelCache cache;
  for (const std::string &damaged : {std::string(), std::string("code"), std::string(64, 'x')}) {
    cache.keep(key, code);
    ASSERT_EQ(cache.find(key), code);
    std::ofstream(entries().front(), std::ios::trunc) << damaged;
    EXPECT_EQ(cache.find(key), std::nullopt) << damaged.size();
  }
}

TEST_F(KernelCacheTest, WhatIsNoFileCountsAsNone) {
  std::string key = KernelCache::keyOf({"a"});
  KernelCache cache;
  cache.keep(key, code);
  std::filesystem::path entry = entries().front();
  std::filesystem::remove(entry);
  ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0);
  EXPECT_EQ(cache.find(key), std::nullopt);
}

TEST_F(KernelCacheTest, AFolderThatCanNotBeIsAsGoodAsNone) {
  std::string file = folder.file("file"), key = KernelCache::keyOf({"a"});
  std::ofstream(file) << "not a folder";
  for (const std::string &path : {file, std::string("/proc/none"), std::string("off")}) {
    use(path);
    KernelCache cache;
    cache.keep(key, code);
    EXPECT_EQ(cache.find(key), std::nullopt) << path;
  }
  EXPECT_FALSE(std::filesystem::exists("off"));
}

TEST_F(KernelCacheTest, AnotherFileHasAnotherIdentity) {
  std::string path = folder.file("tool");
  EXPECT_EQ(KernelCache::identityOf(path), "");
  std::ofstream(path) << "1";
  std::string first = KernelCache::identityOf(path);
  std::ofstream(path) << "22";
  EXPECT_NE(KernelCache::identityOf(path), first);
  EXPECT_NE(first, "");
  EXPECT_NE(KernelCache::compilerIdentity().find("libLLVM"), std::string::npos);
  EXPECT_NE(KernelCache::compilerIdentity().find("/TargetTests "), std::string::npos);
}

} // namespace
