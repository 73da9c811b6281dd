#include "TestArtifact.h"

#include "dtc-rt/Checkpoint/Folder.h"
#include "dtc-rt/Files/LogFile.h"
#include "dtc-rt/Files/OutputConflicts.h"
#include "dtc-rt/Program/MappedFile.h"
#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Program/PartialFiles.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

/// Files of this process end at `bytes` while it lives: writes beyond fail, as on a full disk.
class FileSizeLimit {
public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old);
    rlimit limit{bytes, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
  }

private:
  rlimit old{};
  void (*handler)(int) = nullptr;
};

int processThatIsGone() {
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

} // namespace

TEST(LogFile, ALineIsThereAsAWholeOrNotAtAll) {
  TemporaryFolder folder;
  auto log = LogFile::create(folder / "log");
  ASSERT_TRUE(log) << log.status().message();
  {
    FileSizeLimit limit(10);
    EXPECT_TRUE(log->append("12345").isOk());
    EXPECT_EQ(log->append("1234567").category(), ErrorCategory::Failed);
    EXPECT_EQ(readFile(folder / "log"), "12345\n");
  }
  EXPECT_TRUE(log->append("678").isOk());
  EXPECT_EQ(readFile(folder / "log"), "12345\n678\n");
}

TEST(LogFile, HasOneWriter) {
  TemporaryFolder folder;
  {
    auto log = LogFile::create(folder / "log");
    ASSERT_TRUE(log);
    ASSERT_TRUE(log->append("first").isOk());
    auto second = LogFile::create(folder / "log");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.status().category(), ErrorCategory::Usage);
    EXPECT_EQ(readFile(folder / "log"), "first\n"); // not emptied
  }
  EXPECT_TRUE(LogFile::create(folder / "log"));
}

TEST(LogFile, IsAsItWasUntilItsFirstLine) {
  TemporaryFolder folder;
  writeFile(folder / "log", "old\n");
  {
    auto log = LogFile::create(folder / "log");
    ASSERT_TRUE(log);
  }
  EXPECT_EQ(readFile(folder / "log"), "old\n");
  auto log = LogFile::create(folder / "log");
  ASSERT_TRUE(log && log->append("new").isOk());
  EXPECT_EQ(readFile(folder / "log"), "new\n");
}

TEST(LogFile, WithoutALineThereIsNone) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("log", folder / "link");
  {
    auto log = LogFile::create(folder / "link");
    ASSERT_TRUE(log);
    EXPECT_TRUE(std::filesystem::exists(folder / "log"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "log"));
  auto log = LogFile::create(folder / "log");
  ASSERT_TRUE(log);
  std::filesystem::remove(folder / "log");
  writeFile(folder / "log", ""); // somebody else's
  log->removeIfEmpty();
  EXPECT_TRUE(std::filesystem::exists(folder / "log"));
}

TEST(LogFile, KeepsTheFirstLines) {
  TemporaryFolder folder;
  writeFile(folder / "log", "1\n2\n3\n");
  auto log = LogFile::create(folder / "log", [](std::string_view line) { return line < "3"; });
  ASSERT_TRUE(log);
  EXPECT_EQ(readFile(folder / "log"), "1\n2\n3\n");
  EXPECT_TRUE(log->begin().isOk());
  EXPECT_EQ(readFile(folder / "log"), "1\n2\n");
}

TEST(OutputConflicts, AnOutputIsNoInputUnderAnyPath) {
  TemporaryFolder folder;
  writeFile(folder / "data", "x");
  std::filesystem::create_symlink(folder / "data", folder / "link");
  std::filesystem::create_hard_link(folder / "data", folder / "other");
  NamedFile inputs[] = {{"the model", ""}, {"--data", folder / "data"}};
  for (const char *name : {"data", "link", "other", "./data"}) {
    NamedFile outputs[] = {{"--log", folder / name}};
    Status status = checkOutputConflicts(inputs, outputs);
    EXPECT_EQ(status.category(), ErrorCategory::Usage) << name;
    EXPECT_NE(status.message().find("--data"), std::string::npos);
  }
  NamedFile apart[] = {{"--log", folder / "new"}, {"--outputs", ""}, {"--save-weights", ""}};
  EXPECT_TRUE(checkOutputConflicts(inputs, apart).isOk());
}

TEST(OutputConflicts, TwoOutputsAreTwoFiles) {
  TemporaryFolder folder;
  NamedFile same[] = {{"--log", folder / "new"}, {"--outputs", folder / "./new"}};
  EXPECT_EQ(checkOutputConflicts({}, same).category(), ErrorCategory::Usage);
  NamedFile device[] = {{"--log", "/dev/null"}, {"--outputs", "/dev/null"}};
  EXPECT_TRUE(checkOutputConflicts({}, device).isOk());
}

TEST(OutputConflicts, ALinkIsTheFileThatItWillBe) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("new", folder / "link");
  NamedFile same[] = {{"--log", folder / "new"}, {"--outputs", folder / "link"}};
  EXPECT_EQ(checkOutputConflicts({}, same).category(), ErrorCategory::Usage);
  std::swap(same[0], same[1]);
  EXPECT_EQ(checkOutputConflicts({}, same).category(), ErrorCategory::Usage);
}

TEST(OutputFile, HasOneWriterWhereItIsAskedFor) {
  TemporaryFolder folder;
  {
    auto first = OutputFile::create(folder / "w", 4, Writers::One);
    ASSERT_TRUE(first) << first.status().message();
    auto second = OutputFile::create(folder / "w", 4, Writers::One);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.status().category(), ErrorCategory::Usage);
    EXPECT_TRUE(OutputFile::create(folder / "other", 4, Writers::One));
    std::memcpy(first->data(), "1234", 4);
    ASSERT_TRUE(first->commit().isOk());
  }
  EXPECT_EQ(readFile(folder / "w"), "1234");
  EXPECT_TRUE(OutputFile::create(folder / "w", 4, Writers::One));
}

TEST(OutputFile, ALinkKeepsAndItsTargetIsWritten) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "runs");
  std::filesystem::create_symlink("runs/w", folder / "link");
  for (const char *text : {"1234", "5678"}) { // first there is no target yet
    auto file = OutputFile::create(folder / "link", 4);
    ASSERT_TRUE(file) << file.status().message();
    std::memcpy(file->data(), text, 4);
    ASSERT_TRUE(file->commit().isOk());
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
    EXPECT_EQ(readFile(folder / "runs/w"), text);
  }
}

/// A process that ends removes it while another thread completes it.
TEST(OutputFile, IsNotThereOnceItWasRemovedUnfinished) {
  TemporaryFolder folder;
  {
    auto file = OutputFile::create(folder / "w", 4);
    ASSERT_TRUE(file) << file.status().message();
    dtc::io::removeUnfinishedFiles();
    std::memcpy(file->data(), "1234", 4);
    EXPECT_FALSE(file->commit().isOk());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

/// Its files may be removed as another thread gives it its name.
TEST(CheckpointFolder, HasNoNewCheckpointOnceItIsAbandoned) {
  TemporaryFolder folder;
  auto checkpoints = CheckpointFolder::claim(folder / "c");
  ASSERT_TRUE(checkpoints) << checkpoints.status().message();
  auto writePartial = [&](int64_t step) {
    std::string partial = checkpoints->nameOf(step) + kPartialSuffix + std::to_string(::getpid());
    std::filesystem::create_directory(partial);
    writeFile(partial + "/rank-0.safetensors", "x");
    return partial;
  };
  ASSERT_TRUE(checkpoints->commit(writePartial(1), 1).isOk());
  const std::string partial = writePartial(2);
  checkpoints->abandon();
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_FALSE(checkpoints->commit(writePartial(2), 2).isOk());
  EXPECT_EQ(checkpoints->steps(), std::vector<int64_t>{1});
}

/// Also where a run is refused before its first checkpoint.
TEST(CheckpointFolder, WhatItMadeGoesWithItWhereItIsEmpty) {
  TemporaryFolder folder;
  namespace fs = std::filesystem;
  fs::create_directory(folder / "before");
  ASSERT_TRUE(CheckpointFolder::claim(folder / "before/a/b/c/"));
  EXPECT_TRUE(fs::is_empty(folder / "before"));
  {
    auto checkpoints = CheckpointFolder::claim(folder / "before/a/b");
    ASSERT_TRUE(checkpoints) << checkpoints.status().message();
    EXPECT_FALSE(CheckpointFolder::claim(folder / "before/a/b"));
    writeFile(folder / "before/a/note", "x");
  }
  EXPECT_TRUE(fs::exists(folder / "before/a/note"));
  EXPECT_FALSE(fs::exists(folder / "before/a/b"));
  writeFile(folder / "file", "x");
  EXPECT_FALSE(CheckpointFolder::claim(folder / "new/../file/c"));
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(PartialFiles, ThoseOfLivingProcessesStay) {
  TemporaryFolder folder;
  std::string start = (folder / "model.dtc") + kPartialSuffix;
  std::string gone = start + std::to_string(processThatIsGone());
  std::string mine = start + std::to_string(::getpid()), foreign = start + "notes";
  std::string another =
      (folder / "other.dtc") + kPartialSuffix + std::to_string(processThatIsGone());
  for (const std::string &path : {gone, mine, foreign, another})
    writeFile(path, "x");
  removeAbandonedPartials(folder / "model.dtc");
  EXPECT_FALSE(std::filesystem::exists(gone));
  for (const std::string &path : {mine, foreign, another})
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
}
