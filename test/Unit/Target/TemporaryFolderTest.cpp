#include "dtc/Target/TemporaryFolder.h"
#include "dtc-io/SuddenEnd.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace dtc;

/// As a signal handler does, while a tool has written into one of them.
TEST(TemporaryFolder, GoesAtASuddenEnd) {
  target::TemporaryFolder folder, other;
  std::filesystem::path ended;
  {
    target::TemporaryFolder earlier;
    ended = std::filesystem::path(earlier.file("x")).parent_path();
  }
  ASSERT_FALSE(folder.error() || other.error());
  ASSERT_FALSE(static_cast<bool>(target::writeFile(folder.file("kernel.ptx"), "text")));
  ASSERT_FALSE(static_cast<bool>(target::writeFile(folder.file(".hidden"), "text")));
  std::filesystem::create_directory(ended); // of that name, but not ours any more
  io::removeUnfinishedFiles();
  for (const target::TemporaryFolder *each : {&folder, &other})
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(each->file("x")).parent_path()));
  EXPECT_TRUE(std::filesystem::remove(ended));
}
