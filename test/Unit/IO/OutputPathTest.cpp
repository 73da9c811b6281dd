#include "dtc-io/OutputPath.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

using namespace dtc::io;

TEST(OutputPath, FollowsLinksToTheirEnd) {
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / ("links-" + std::to_string(::getpid()));
  fs::create_directories(folder / "runs");
  fs::create_symlink("runs/a", folder / "relative"); // to a file that isn't there
  fs::create_symlink(folder / "relative", folder / "chain");
  fs::create_symlink("circle", folder / "circle");
  EXPECT_EQ(endOfLinks(folder / "plain"), folder / "plain");
  EXPECT_EQ(endOfLinks(folder / "relative"), folder / "runs/a");
  EXPECT_EQ(endOfLinks(folder / "chain"), folder / "runs/a");
  EXPECT_EQ(endOfLinks(folder / "circle"), folder / "circle");
  fs::current_path(folder);
  EXPECT_EQ(endOfLinks("relative"), "runs/a");
  fs::current_path("/");
  fs::remove_all(folder);
}
