#include "dtc-io/WholeNumber.h"

#include <gtest/gtest.h>

using namespace dtc::io;

TEST(WholeNumber, DecimalNumbersThatFit) {
  for (auto [typed, read] : {std::pair{"0", "0"},
                             {"010", "10"},
                             {"-7", "-7"},
                             {"-0", "0"},
                             {"18446744073709551615", "18446744073709551615"},
                             {"-9223372036854775808", "-9223372036854775808"}}) {
    std::string text = typed;
    EXPECT_EQ(checkWholeNumber(text, INT64_MIN, UINT64_MAX), "");
    EXPECT_EQ(text, read);
  }
}

TEST(WholeNumber, OthersAreRefused) {
  for (const char *typed : {"", "-", "x", "1x", "1.0", "1e3", "0x10", " 1", "1 ", "+1", "--1",
                            "18446744073709551616", "-9223372036854775809"}) {
    std::string text = typed;
    EXPECT_EQ(checkWholeNumber(text, INT64_MIN, UINT64_MAX),
              "expected a whole number from -9223372036854775808 to 18446744073709551615, got '" +
                  std::string(typed) + "'");
  }
}

TEST(WholeNumber, BoundsAreIncluded) {
  for (auto [typed, fits] :
       {std::pair{"-3", false}, {"-2", true}, {"0", true}, {"9", true}, {"10", false}}) {
    std::string text = typed;
    EXPECT_EQ(checkWholeNumber(text, -2, 9).empty(), fits) << typed;
  }
  std::string text = "2";
  EXPECT_NE(checkWholeNumber(text, 3, 9), "");
}
