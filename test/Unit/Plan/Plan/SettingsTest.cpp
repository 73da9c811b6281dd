// Goes through the table of settings: whoever adds a row is tested here without another line.
#include "ChangedSettings.h"

#include "dtc/Plan/Plan/Problem.h"

#include <fstream>
#include <set>
#include <sstream>

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// The bindings don't compile once a member is added, and its row is looked for.
TEST(Settings, EveryMemberOfAPlanHasARow) {
  const Degrees degrees;
  const auto &[dp, tp, pp, cp, ep, sp, regather, contextExchange, tensorWeights, capacity, overflow,
               zero, zeroBlocks, zeroGroup, schedule, chunks, kept, microBatch, numMicrobatches,
               recompute, recomputeBlocks, offload, order, groups] = degrees;
  std::set<const void *> rows, members = {&dp,
                                          &tp,
                                          &pp,
                                          &cp,
                                          &ep,
                                          &sp,
                                          &regather,
                                          &contextExchange,
                                          &tensorWeights,
                                          &capacity,
                                          &overflow,
                                          &zero,
                                          &zeroBlocks,
                                          &zeroGroup,
                                          &schedule,
                                          &chunks,
                                          &kept,
                                          &microBatch,
                                          &order,
                                          &groups,
                                          &numMicrobatches,
                                          &recompute,
                                          &recomputeBlocks,
                                          &offload};
  for (const Setting &setting : settings())
    rows.insert(std::visit([&](auto member) -> const void * { return &(degrees.*member.plan); },
                           setting.member));
  EXPECT_EQ(rows, members);
  EXPECT_EQ(rows.size(), settings().size());
}

TEST(Settings, EveryMemberOfASpecHasARow) {
  const Spec spec;
  const auto &[dp, tp, pp, cp, ep, sp, regather, contextExchange, tensorWeights, capacity, overflow,
               zero, zeroGroup, chunks, microBatch, kept, schedule, recompute, offload, order,
               groups] = spec;
  std::set<const void *> rows, members = {&dp,         &tp,
                                          &pp,         &cp,
                                          &ep,         &sp,
                                          &zero,       &chunks,
                                          &microBatch, &schedule,
                                          &recompute,  &offload,
                                          &order,      &zeroGroup,
                                          &groups,     &tensorWeights,
                                          &regather,   &contextExchange,
                                          &capacity,   &overflow,
                                          &kept};
  for (const Setting &setting : settings())
    std::visit(
        [&](auto member) {
          if (member.pin)
            rows.insert(&(spec.*member.pin));
        },
        setting.member);
  EXPECT_EQ(rows, members);
}

TEST(Settings, EachSurvivesASpec) {
  int sayable = 0;
  for (const Setting &setting : settings()) {
    Spec asked;
    pinAsPlanned(setting, changed(setting), asked);
    auto value = pinnedValue(setting, asked);
    if (!value)
      continue;
    ++sayable;
    auto spec = parseSpec(std::string(setting.name) + "=" + *value);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(*spec, asked);
    Degrees degrees = changed(setting), expected = degrees;
    std::visit([&](auto member) { degrees.*member.plan = Degrees().*member.plan; }, setting.member);
    applyPin(setting, *spec, degrees);
    EXPECT_EQ(degrees, expected) << setting.name;
    unpin(setting, *spec);
    EXPECT_EQ(*spec, Spec()) << setting.name;
  }
  EXPECT_EQ(sayable, 19); // all of a SPEC but sp, which no plan decides
}

TEST(Settings, ASpecRefusesWhatHasNoSuchValue) {
  for (const Setting &setting : settings()) {
    auto spec = parseSpec(std::string(setting.name) + "=?");
    ASSERT_FALSE(spec);
    std::string start = isSayable(setting) ? std::string("plan: ") + setting.name + " expects "
                                           : std::string("plan: unknown key: ") + setting.name;
    EXPECT_TRUE(spec.error().message.starts_with(start)) << spec.error().message;
  }
}

static std::string yamlOf(const Degrees &degrees) {
  Plan plan;
  plan.degrees = degrees;
  return toYaml(plan, Problem());
}

TEST(Settings, EachSurvivesAPlanFile) {
  for (const Setting &setting : settings()) {
    const Degrees degrees = changed(setting);
    auto read = degreesFromYaml(yamlOf(degrees), "plan.yaml");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, degrees) << setting.name;
    EXPECT_FALSE(hasDefault(setting, *read)) << setting.name;
  }
}

TEST(Settings, WhatAPlanFileLeavesOutHasTheDefaultValue) {
  for (const Setting &setting : settings()) {
    std::string text = yamlOf(changed(setting)), key = std::string("\n  ") + setting.name + ":";
    size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos) << text;
    size_t end = text.find('\n', at + 1);
    while (text.compare(end, 4, "\n   ") == 0) // the items of a list
      end = text.find('\n', end + 1);
    auto read = degreesFromYaml(text.erase(at, end - at), "plan.yaml");
    if (setting.isRequired) {
      EXPECT_FALSE(read) << setting.name;
      continue;
    }
    ASSERT_TRUE(read) << setting.name << ": " << read.error().message << "\n" << text;
    EXPECT_TRUE(hasDefault(setting, *read)) << setting.name;
  }
}

TEST(Settings, ASummaryNamesWhatWasChanged) {
  for (const Setting &setting : settings())
    if (std::string_view(setting.name) != "num_microbatches") {
      EXPECT_NE(summary(changed(setting)), summary(base())) << setting.name;
    }
}

TEST(Settings, StageGroupsAreSaidTogether) {
  Degrees degrees = changed(settingOf(&Degrees::groups));
  EXPECT_EQ(settingText(settingOf(&Degrees::groups), degrees), "dp=4|8 tp=2|1 pp=4(1|3)");
  EXPECT_EQ(settingText(settingOf(&Degrees::microBatch), degrees), "micro_batch=2|1");
  EXPECT_EQ(settingText(settingOf(&Degrees::sp), degrees), "sp=off|on");
  EXPECT_EQ(settingText(settingOf(&Degrees::zeroGroup), degrees), "zero_group=4");
}

TEST(Settings, EachThatASpecCanSayIsInTheDocuments) {
  std::ifstream file(DTC_TEST_DIR "/../docs/Plans.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const Setting &setting : settings())
    if (isSayable(setting) || isBlockCount(setting)) {
      EXPECT_NE(page.str().find(std::string("`") + setting.name + "`"), std::string::npos)
          << setting.name;
    }
}
