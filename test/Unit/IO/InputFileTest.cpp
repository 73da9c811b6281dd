#include "dtc-io/InputFile.h"
#include "dtc-io/Json.h"
#include "dtc-io/SuddenEnd.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace dtc::io;

namespace {

/// Sanitizers tell of signals and of missing memory themselves.
#if defined(__has_feature)
constexpr bool kIsSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kIsSanitized = false;
#endif

class InputFileTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("input-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string &name, const std::string &text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }

  std::filesystem::path folder;
  std::string why;
};

TEST_F(InputFileTest, ReadsRegularFiles) {
  EXPECT_EQ(readFile(write("a", "text"), 4, why), "text");
  EXPECT_EQ(readFile(write("empty", ""), 4, why), "");
  EXPECT_EQ(MappedFile::open(write("b", "bytes"), why)->bytes().size(), 5u);
  EXPECT_TRUE(MappedFile::open(write("nothing", ""), why)->bytes().empty());
}

TEST_F(InputFileTest, RefusesWhatIsTooLong) {
  EXPECT_FALSE(readFile(write("a", "text"), 3, why));
  EXPECT_EQ(why, "has more than 3 bytes: 4");
}

TEST_F(InputFileTest, RefusesWhatIsNoRegularFile) {
  std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string &path : {fifo, std::string("/dev/zero"), folder.string()}) {
    EXPECT_FALSE(InputFile::open(path, why)) << path;
    EXPECT_EQ(why, "not a regular file");
    EXPECT_FALSE(MappedFile::open(path, why));
    EXPECT_FALSE(readFile(path, 100, why));
  }
  EXPECT_FALSE(InputFile::open(folder / "none", why));
  EXPECT_EQ(why, "cannot open: No such file or directory");
}

TEST_F(InputFileTest, EndsWhereAMappedFileIsTruncated) {
  std::string path = write("long", std::string(1 << 16, 'x')), partial = write("partial", "half");
  auto readAfterCut = [&] {
    UnfinishedFile unfinished(partial);
    std::optional<MappedFile> file = MappedFile::open(path, why);
    std::filesystem::resize_file(path, 10);
    volatile char last = file->bytes().back();
    (void)last;
  };
  EXPECT_EXIT(readAfterCut(), testing::ExitedWithCode(3), "error: .*long: was truncated while");
  EXPECT_FALSE(std::filesystem::exists(partial)) << "what was being written is removed";
}

TEST_F(InputFileTest, OtherBusErrorsStayWhatTheyAre) {
  std::optional<MappedFile> file = MappedFile::open(write("a", "text"), why);
  if (kIsSanitized)
    GTEST_SKIP() << "sanitizers take signals";
  EXPECT_EXIT(std::raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(InputFileTest, EndsWithoutMemory) {
  if (kIsSanitized)
    GTEST_SKIP() << "sanitizers end where there is no memory";
  auto use = [] {
    endSuddenlyWithoutMemory();
    size_t most = std::vector<char>().max_size() / 2;
    static_cast<volatile char *>(::operator new(most))[most - 1] = 1;
  };
  EXPECT_EXIT(use(), testing::ExitedWithCode(1), "error: out of memory");
  auto inThread = [] {
    endSuddenlyWithoutMemory();
    std::thread([] { throw std::bad_alloc(); }).join();
  };
  EXPECT_EXIT(inThread(), testing::ExitedWithCode(1), "error: out of memory");
}

TEST(CheckJson, RefusesWhatIsTooDeep) {
  auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(checkJson(nested(64)), "");
  EXPECT_EQ(checkJson(nested(65)), "nests deeper than 64 levels");
  EXPECT_EQ(checkJson('"' + std::string(1000, '[') + "\\\"[\""), "") << "text isn't structure";
  EXPECT_NE(checkJson("[" + std::string(1 << 23, ',')), "");
}

TEST(ParseJson, SaysWhyNot) {
  std::string why;
  EXPECT_EQ(parseJson<nlohmann::json>("[1]", why)->size(), 1u);
  EXPECT_FALSE(parseJson<nlohmann::json>("[1", why));
  EXPECT_EQ(why, "is not JSON");
}

} // namespace
