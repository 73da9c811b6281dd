// The exit codes are a contract (docs/Commands.md), so they stand here once more.
#include "dtc-io/ExitCodes.h"

#include <gtest/gtest.h>

#include <csignal>

using namespace dtc;

TEST(ExitCodes, AreThoseOfTheContract) {
  const std::pair<ErrorCategory, int> expected[] = {
      {ErrorCategory::Failed, 1},       {ErrorCategory::Usage, 2},
      {ErrorCategory::InputRefused, 3}, {ErrorCategory::NoFit, 4},
      {ErrorCategory::RankLost, 5},     {ErrorCategory::NotFinite, 6},
      {ErrorCategory::Saved, 75},       {ErrorCategory::Interrupted, 128 + SIGINT},
      {ErrorCategory::Terminated, 143}, {ErrorCategory::Notified, 128 + SIGUSR1},
  };
  for (auto [category, code] : expected) {
    EXPECT_EQ(io::exitCodeOf(category), code);
    EXPECT_EQ(io::categoryOf(code), category);
  }
}

TEST(ExitCodes, OfOtherProgramsMeanThatItFailed) {
  EXPECT_EQ(io::categoryOf(127), ErrorCategory::Failed);
}
