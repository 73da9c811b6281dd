// The whole page, of plans that are searched here.
#include "dtc/Report/Report.h"

#include "Style.h"
#include "Transformer.h"

namespace dtc::report {

using plan::testing::cluster;
using plan::testing::Transformer;

static std::string page(plan::Problem problem, const plan::Cluster &cluster, int64_t devices,
                        const std::string &spec) {
  auto found = plan::search(
      problem, cluster, {.devices = devices, .spec = *plan::parseSpec(spec), .executable = false});
  EXPECT_TRUE(found) << found.error().message;
  if (!found)
    return "";
  auto text = reportPage({found->problem, *found, cluster, devices},
                         [](const std::string &) { return "DIGEST"; });
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : "";
}

TEST(Page, IsTheSameForTheSameFacts) {
  plan::Problem problem = Transformer({.layers = 4}).build();
  EXPECT_EQ(page(problem, cluster("dgx-h100"), 8, "auto"),
            page(problem, cluster("dgx-h100"), 8, "auto"));
}

TEST(Page, AllowsItsStyleSheetAlone) {
  std::string text = page(Transformer({.layers = 2}).build(), cluster("dgx-h100"), 8, "tp=2");
  EXPECT_NE(text.find("default-src &#39;none&#39;; style-src &#39;sha256-DIGEST&#39;"),
            std::string::npos);
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_EQ(text.find("style="), std::string::npos);
  EXPECT_NE(text.find("<style>" + styleSheet() + "</style>"), std::string::npos);
}

TEST(Page, HostileNamesAreText) {
  plan::Problem problem = Transformer({.layers = 2}).build();
  const std::string evil = "</title></style><script>alert(1)</script><img src=x onerror=y>";
  problem.model = "folder/" + evil;
  for (plan::Value &value : problem.values)
    if (!value.name.empty())
      value.name += "\"'" + evil;
  for (plan::Op &op : problem.ops)
    op.location = evil;
  plan::Cluster where = cluster("dgx-h100");
  where.device.name = evil;
  for (plan::LinkLevel &level : where.levels)
    level.name = evil;
  std::string text = page(problem, where, 8, "tp=2");
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_EQ(text.find("<img"), std::string::npos);
  EXPECT_EQ(text.find("</title></style>"), std::string::npos);
  EXPECT_NE(text.find("&lt;script&gt;alert(1)"), std::string::npos);
}

TEST(Page, SaysWhenThePlanDoesNotFit) {
  plan::Problem problem = Transformer({.layers = 4}).build();
  plan::Cluster small = cluster("dgx-h100");
  small.device.memoryBytes = 1e9;
  const std::string pinned = "dp=8,tp=1,zero=0,recompute=none,micro_batch=1";
  EXPECT_NE(page(problem, small, 8, pinned).find("This plan does not fit"), std::string::npos);
  EXPECT_EQ(page(problem, cluster("dgx-h100"), 8, pinned).find("This plan does not fit"),
            std::string::npos);
}

TEST(Page, AModelWithoutLayersHasOne) {
  std::string text = page(Transformer({.layers = 1}).build(), cluster("dgx-h100"), 2, "auto");
  EXPECT_NE(text.find("head"), std::string::npos);
}

TEST(Page, ManyParametersAreCut) {
  plan::Problem problem = Transformer({.layers = 60}).build();
  // Shapes that differ from layer to layer: nothing is alike.
  int64_t next = 0;
  for (plan::ValueId value = 0; value < problem.arguments; ++value)
    problem.values[value].trainable = ++next % 7 != 0;
  std::string text = page(problem, cluster("dgx-h100"), 8, "dp=8,tp=1,zero=0,recompute=none");
  EXPECT_NE(text.find("more kinds of parameters aren&#39;t listed"), std::string::npos);
  EXPECT_LT(text.size(), 400000u);
}

TEST(Page, PipelinesOfEverySchedule) {
  plan::Problem problem = Transformer({.layers = 8, .batch = 16}).build();
  for (const char *spec : {"pp=4,schedule=gpipe,micro_batch=1", "pp=4,schedule=1f1b,micro_batch=1",
                           "pp=2,schedule=interleaved,chunks=2,micro_batch=1",
                           "pp=4,schedule=zb,micro_batch=1"}) {
    std::string text = page(problem, cluster("dgx-h100"), 8, spec);
    EXPECT_NE(text.find("Pipeline rank 1"), std::string::npos) << spec;
    EXPECT_NE(text.find("The stages of the pipeline"), std::string::npos) << spec;
  }
}

} // namespace dtc::report
