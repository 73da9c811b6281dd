#include "dtc-io/Environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace dtc::io;

namespace {

/// What is wrong with a variable of that value.
std::string wrong(const char *name, const char *value) {
  ::setenv(name, value, /*overwrite=*/1);
  std::string text = findWrongVariable();
  ::unsetenv(name);
  return text;
}

} // namespace

TEST(Environment, TakesKnownValuesAndPathsAlone) {
  EXPECT_EQ(findWrongVariable(), "");
  EXPECT_EQ(wrong("DTC_COLLECTIVES", "wait"), "");
  EXPECT_EQ(wrong("DTC_COLLECTIVES", "later"),
            "DTC_COLLECTIVES: expected start, wait or thread, got 'later'");
  for (const char *name : {"DTC_CUBLASLT_EPILOGUES", "DTC_CUDNN_PARTS", "DTC_SHARE_GPU"}) {
    for (const char *value : {"0", "1", ""})
      EXPECT_EQ(wrong(name, value), "") << name;
    EXPECT_EQ(wrong(name, "maybe"), std::string(name) + ": expected 0 or 1, got 'maybe'");
  }
  for (const char *name : {"DTC_KERNEL_CACHE", "DTC_CUBLASLT_CACHE"}) {
    for (const char *value : {"off", "", "/tmp/x", "./0", "cache"})
      EXPECT_EQ(wrong(name, value), "") << name;
    EXPECT_EQ(wrong(name, "0"), std::string(name) + ": expected off or a folder, got '0'");
  }
  EXPECT_EQ(wrong("DTC_CALIBRATION", "no"), "DTC_CALIBRATION: expected off or a file, got 'no'");
}

TEST(Environment, GivesWhatIsSet) {
  ::unsetenv("DTC_SHARE_GPU");
  EXPECT_EQ(valueOf(Variable::ShareGpu), "");
  ::setenv("DTC_SHARE_GPU", "1", /*overwrite=*/1);
  EXPECT_EQ(valueOf(Variable::ShareGpu), "1");
  ::unsetenv("DTC_SHARE_GPU");
}
