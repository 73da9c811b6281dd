#include "dtc/Package/ZipWriter.h"
#include "ZipReader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace dtc::package;
namespace fs = std::filesystem;

namespace {

Bytes bytesOf(const std::string &text) { return std::as_bytes(std::span(text)); }

class ZipWriterTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) /
             ("zip-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder);
    fs::create_directories(folder);
    path = (folder / "a.dtc").string();
  }
  void TearDown() override { fs::remove_all(folder); }
  size_t filesInFolder() const {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  }

  fs::path folder;
  std::string path;
};

TEST_F(ZipWriterTest, MembersAreStoredAndAligned) {
  auto zip = ZipWriter::create(path);
  ASSERT_TRUE(static_cast<bool>(zip));
  std::string text = "some bytes", large(100000, 'x');
  for (int i = 0; i < 20; ++i)
    ASSERT_FALSE((*zip)->add("m/" + std::string(i, 'n'), {bytesOf(text), bytesOf(large)}));
  ASSERT_FALSE((*zip)->add("empty", {}));
  ASSERT_FALSE((*zip)->commit("a comment"));
  ReadZip read = readZip(path);
  EXPECT_EQ(read.comment, "a comment");
  ASSERT_EQ(read.members.size(), 21u);
  for (const auto &[name, member] : read.members) {
    EXPECT_EQ(member.offset % 64, 0u) << name;
    EXPECT_EQ(member.content, name == "empty" ? "" : text + large);
  }
}

TEST_F(ZipWriterTest, TheSameInputGivesTheSameFile) {
  std::string contents[2];
  for (std::string &content : contents) {
    auto zip = ZipWriter::create(path);
    ASSERT_TRUE(static_cast<bool>(zip));
    std::string text = "bytes";
    ASSERT_FALSE((*zip)->add("member", {bytesOf(text)}));
    ASSERT_FALSE((*zip)->commit(""));
    std::ifstream stream(path, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(stream), {});
  }
  EXPECT_FALSE(contents[0].empty());
  EXPECT_EQ(contents[0], contents[1]);
}

TEST_F(ZipWriterTest, NothingIsLeftWithoutCommit) {
  {
    auto zip = ZipWriter::create(path);
    ASSERT_TRUE(static_cast<bool>(zip));
    std::string text = "bytes";
    ASSERT_FALSE((*zip)->add("member", {bytesOf(text)}));
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_EQ(filesInFolder(), 0u);
}

TEST_F(ZipWriterTest, AnEarlierFileStaysUntilCommit) {
  std::ofstream(path) << "earlier";
  {
    auto zip = ZipWriter::create(path);
    ASSERT_TRUE(static_cast<bool>(zip));
  }
  std::ifstream stream(path);
  std::string content(std::istreambuf_iterator<char>(stream), {});
  EXPECT_EQ(content, "earlier");
}

TEST_F(ZipWriterTest, AFolderThatIsntThereIsAnError) {
  auto zip = ZipWriter::create((folder / "missing" / "a.dtc").string());
  ASSERT_FALSE(static_cast<bool>(zip));
  EXPECT_NE(llvm::toString(zip.takeError()).find("No such file"), std::string::npos);
}

TEST(Sha256, KnownDigest) {
  std::string a = "ab", b = "c";
  EXPECT_EQ(sha256({bytesOf(a), bytesOf(b)}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

} // namespace
