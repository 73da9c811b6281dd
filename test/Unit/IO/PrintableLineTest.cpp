#include "dtc-io/PrintableLine.h"

#include <gtest/gtest.h>

using dtc::io::printableLine;

TEST(PrintableLineTest, LettersOfAllLanguagesStay) {
  const std::string text = "model.onnx: Größe \u00a0 \u4e2d \U0001f600 ~";
  EXPECT_EQ(printableLine(text), text);
}

TEST(PrintableLineTest, ControlCharactersBecomeSpaces) {
  EXPECT_EQ(printableLine("a\nb\tc\x1b[2J\x7f\u0085\u009f."), "a b c [2J   .");
  EXPECT_EQ(printableLine(std::string_view("a\0b", 3)), "a b");
}

TEST(PrintableLineTest, BytesThatAreNoTextBecomeQuestionMarks) {
  EXPECT_EQ(printableLine("\xff\xfe."), "??.");
  EXPECT_EQ(printableLine("\xc0\xaf."), "??.");         // a slash that is too long
  EXPECT_EQ(printableLine("\xed\xa0\x80."), "???.");    // half of a pair
  EXPECT_EQ(printableLine("\xf4\x90\x80\x80"), "????"); // beyond all
  EXPECT_EQ(printableLine("\xe4\xb8"), "??");           // cut
  EXPECT_EQ(printableLine("\xe4\xb8."), "??.");
}

TEST(PrintableLineTest, LongOnesLoseTheirMiddle) {
  const std::string line = printableLine("begin" + std::string(30 << 20, 'x') + "end");
  EXPECT_EQ(line.size(), 805u);
  EXPECT_TRUE(line.starts_with("beginx"));
  EXPECT_TRUE(line.ends_with("xend"));
  EXPECT_NE(line.find("x ... x"), std::string::npos);
}
