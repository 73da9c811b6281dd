#include "dtc/Plan/Plan/Spec.h"

#include <gtest/gtest.h>

using dtc::ErrorCategory;
using namespace dtc::plan;

TEST(Spec, ReadsEveryKey) {
  auto spec = parseSpec("dp=2, tp=4,pp=1,cp=1,ep=1,sp=on,zero=3,zero_group=8,"
                        "schedule=interleaved,chunks=2,recompute=selective,micro-batch=1,"
                        "offload=optimizer");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->dp, 2);
  EXPECT_EQ(spec->tp, 4);
  EXPECT_EQ(spec->sp, true);
  EXPECT_EQ(spec->zero, 3);
  EXPECT_EQ(spec->zeroGroup, 8);
  EXPECT_EQ(spec->schedule, ScheduleKind::Interleaved);
  EXPECT_EQ(spec->chunks, 2);
  EXPECT_EQ(spec->recompute, Recompute::Selective);
  EXPECT_EQ(spec->microBatch, 1);
  EXPECT_EQ(spec->offload, Offload::Optimizer);
}

TEST(Spec, AutoPinsNothing) {
  auto spec = parseSpec("auto");
  ASSERT_TRUE(spec);
  EXPECT_EQ(*spec, Spec());
}

static void expectRefused(const std::string &text, const std::string &message) {
  auto spec = parseSpec(text);
  ASSERT_FALSE(spec) << text;
  EXPECT_EQ(spec.error().category, ErrorCategory::Usage) << text;
  EXPECT_EQ(spec.error().message, message);
}

TEST(Spec, RefusesWhatItDoesNotKnow) {
  expectRefused("dpp=2", "plan: unknown key: dpp (did you mean dp?)");
  expectRefused("microbatch=2", "plan: unknown key: microbatch (did you mean micro_batch?)");
  expectRefused("quantization=2", "plan: unknown key: quantization");
  expectRefused("dp=2,dp=2", "plan: key is given twice: dp");
  expectRefused("dp", "plan: expected KEY=VALUE, got 'dp'");
  expectRefused("", "plan: expected KEY=VALUE, got ''");
  expectRefused("dp=2,", "plan: expected KEY=VALUE, got ''");
  expectRefused("dp=0", "plan: dp expects a positive integer, got '0'");
  expectRefused("order=tp-dp-pp", "plan: order expects each of tp, cp, ep, dp and pp once, innermost "
                                  "first, as in tp-cp-ep-dp-pp, got 'tp-dp-pp'");
  expectRefused("micro_batch=9223372036854775807",
                "plan: micro_batch expects a positive integer, got '9223372036854775807'");
  expectRefused("dp=2x", "plan: dp expects a positive integer, got '2x'");
  expectRefused("dp=99999999999999999999",
                "plan: dp expects a positive integer, got '99999999999999999999'");
  expectRefused("zero=4", "plan: zero expects 0, 1, 2 or 3, got '4'");
  expectRefused("sp=yes", "plan: sp expects on|off, got 'yes'");
  expectRefused("schedule=zigzag",
                "plan: schedule expects gpipe|1f1b|interleaved|zb|zbv|list, got 'zigzag'");
}

TEST(Spec, FillsDegreesThatAreDecided) {
  Spec filled = *fill(*parseSpec("dp=2,tp=2"), 4);
  EXPECT_EQ(filled.pp, 1);
  EXPECT_EQ(filled.cp, 1);
  EXPECT_EQ(filled.ep, 1);
  EXPECT_EQ(fill(*parseSpec("dp=2"), 4)->tp, std::nullopt);
  EXPECT_EQ(fill(*parseSpec("auto"), 4)->dp, std::nullopt);
  EXPECT_EQ(fill(*parseSpec("auto"), 1)->dp, 1);
}

TEST(Spec, RefusesDegreesThatDoNotFit) {
  EXPECT_EQ(fill(*parseSpec("dp=3"), 4).error().category, ErrorCategory::Usage);
  EXPECT_EQ(fill(*parseSpec("dp=4,tp=2"), 4).error().category, ErrorCategory::Usage);
  EXPECT_EQ(fill(*parseSpec("dp=2,tp=1,pp=1,cp=1,ep=1"), 4).error().message,
            "plan: dp*tp*pp*cp*ep is 2, but the number of devices is 4");
  EXPECT_EQ(fill(*parseSpec("dp=2,cp=2,pp=1"), 6).error().message,
            "plan: dp*pp*cp = 4 doesn't divide the number of devices: 6");
  EXPECT_EQ(fill(*parseSpec("dp=4,tp=2"), 6).error().message,
            "plan: dp = 4 doesn't divide the number of devices: 6");
  // Huge degrees must not overflow.
  EXPECT_EQ(fill(*parseSpec("dp=16777216,tp=16777216"), 16777216).error().category,
            ErrorCategory::Usage);
  EXPECT_EQ(parseSpec("dp=16777217").error().category, ErrorCategory::Usage);
}

TEST(Spec, SummaryIsInTheOrderOfTheSpec) {
  Degrees degrees;
  degrees.dp = 2;
  degrees.tp = 4;
  degrees.sp = true;
  EXPECT_EQ(summary(degrees), "dp=2 tp=4 pp=1 cp=1 ep=1 sp=on zero=0 schedule=1f1b chunks=1 "
                              "recompute=none micro_batch=1 offload=none");
}
