// Text never becomes markup, and figures are what they were.
#include "Figures.h"
#include "Html.h"

#include <gtest/gtest.h>

namespace dtc::report {

TEST(Html, MarkupInTextIsEscaped) {
  EXPECT_EQ(escaped("</code><script>alert(\"1\" & '2')</script>"),
            "&lt;/code&gt;&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;");
}

TEST(Html, WhatIsNoCharacterIsReplaced) {
  EXPECT_EQ(escaped(std::string("a\0b\x1b[31m\x7f", 9)), "a\uFFFDb\uFFFD[31m\uFFFD");
  EXPECT_EQ(escaped("\xC2\x85"), "\uFFFD"); // a control character of two bytes
  EXPECT_EQ(escaped("tab\tline\n"), "tab\tline\n");
}

TEST(Html, OnlyUtf8Passes) {
  EXPECT_EQ(escaped("\u00E9\u20AC\U0001F600"), "\u00E9\u20AC\U0001F600");
  EXPECT_EQ(escaped("\xFF"), "\uFFFD");
  EXPECT_EQ(escaped("\xE2\x82"), "\uFFFD\uFFFD");           // cut off
  EXPECT_EQ(escaped("\xC0\xBC"), "\uFFFD\uFFFD");           // "<", overlong
  EXPECT_EQ(escaped("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD"); // a surrogate
  EXPECT_EQ(escaped("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escaped("\xE2<b>"), "\uFFFD&lt;b&gt;"); // swallows nothing
}

TEST(Html, AttributesAreEscaped) {
  Html html;
  html.open("li", {{"title", "\" onclick=\"x"}});
  EXPECT_EQ(html.take(), "<!DOCTYPE html>\n<li title=\"&quot; onclick=&quot;x\"></li>\n");
}

TEST(Html, TakeClosesWhatIsOpen) {
  Html html;
  html.open("ul").open("li").text("a").leaf("br");
  EXPECT_EQ(html.take(), "<!DOCTYPE html>\n<ul><li>a<br/>\n</li>\n</ul>\n");
}

TEST(Html, LongNamesAreCutBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 500; ++i)
    name += "\u20AC";
  Html html;
  html.name(name);
  std::string text = html.take();
  EXPECT_LT(text.size(), 250u);
  EXPECT_EQ(text.find("\uFFFD"), std::string::npos);
  EXPECT_NE(text.find("\u20AC \u2026 \u20AC"), std::string::npos);
  EXPECT_NE(text.find("<bdi>"), std::string::npos);
}

TEST(Html, FiguresKeepTheirValue) {
  Html html;
  html.figure("step", 0.1, "100 ms");
  EXPECT_NE(html.take().find("<data id=\"step\" value=\"0.10000000000000001\">100 ms</data>"),
            std::string::npos);
}

TEST(Html, CoordinatesHaveOneDecimal) {
  EXPECT_EQ(number(1), "1");
  EXPECT_EQ(number(1.25), "1.2");
  EXPECT_EQ(number(-0.01), "0");
}

TEST(Figures, TicksAreRound) {
  EXPECT_EQ(ticks(10, 5, false), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(47, 5, false), (std::vector<double>{0, 10, 20, 30, 40}));
  EXPECT_EQ(ticks(5.5, 8, false), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ticks(81, 5, true), (std::vector<double>{0, 32, 64}));
  EXPECT_EQ(ticks(0, 5, false), (std::vector<double>{0}));
}

} // namespace dtc::report
