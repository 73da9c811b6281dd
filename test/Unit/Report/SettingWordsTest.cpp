// Goes through the table of settings: each has words for reports and a value in JSON.
#include "ChangedSettings.h"

#include "dtc/Report/Json.h"
#include "dtc/Report/Words.h"

namespace dtc::report {

using plan::Degrees;
using plan::Setting;
using plan::testing::base;
using plan::testing::changed;

static std::string sentence(const Setting &setting, const Degrees &degrees) {
  return setting.about ? setting.about(degrees, {"1,024", "1 TiB of 8 ranks"}) : "";
}

TEST(SettingWords, EachIsSaidInALine) {
  for (const Setting &setting : plan::settings())
    EXPECT_NE(degreesText(changed(setting)), degreesText(base())) << setting.name;
}

TEST(SettingWords, NothingIsSaidOfAPlainPlan) {
  EXPECT_EQ(degreesText({}), "dp=1 tp=1");
  for (const Setting &setting : plan::settings())
    EXPECT_TRUE(isPlain(setting, Degrees())) << setting.name;
}

TEST(SettingWords, EachHasASentence) {
  for (const Setting &setting : plan::settings()) {
    std::string text = sentence(setting, changed(setting));
    if (setting.said == plan::Said::WithOthers && !isBlockCount(setting)) {
      EXPECT_EQ(text, "") << setting.name;
      // The sentence about microbatches tells how many there are, and changes with stage groups.
      const Setting &batch = plan::settingOf(&Degrees::microBatch);
      EXPECT_NE(sentence(batch, changed(setting)), sentence(batch, base())) << setting.name;
      continue;
    }
    EXPECT_GT(text.size(), 10u) << setting.name;
    EXPECT_FALSE(text.ends_with(".")) << setting.name;
  }
}

/// As a SPEC says it; "" for null.
static std::string specValue(const nlohmann::ordered_json &value) {
  if (value.is_null())
    return "";
  if (value.is_boolean())
    return value.get<bool>() ? "on" : "off";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

TEST(SettingWords, EachSurvivesJson) {
  for (const Setting &setting : plan::settings()) {
    const Degrees degrees = changed(setting);
    auto json = nlohmann::ordered_json::parse(degreesJson(degrees).dump());
    if (isList(setting)) {
      EXPECT_FALSE(degreesJson(base()).contains(setting.name));
      EXPECT_EQ(json[setting.name].dump(), R"([{"pp":1,"dp":4,"tp":2,"sp":false,"micro_batch":2},)"
                                           R"({"pp":3,"dp":8,"tp":1,"sp":true,"micro_batch":1}])");
      continue;
    }
    EXPECT_EQ(specValue(json[setting.name]), valueText(setting, degrees)) << setting.name;
    if (!isSayable(setting))
      continue;
    auto spec = plan::parseSpec(setting.name + ("=" + specValue(json[setting.name])));
    ASSERT_TRUE(spec) << spec.error().message;
    Degrees read = base();
    applyPin(setting, *spec, read);
    EXPECT_EQ(read, degrees) << setting.name;
  }
}

TEST(SettingWords, JsonSaysWhatZeroStandsFor) {
  auto json = degreesJson(base());
  EXPECT_TRUE(json["zero_blocks"].is_null());
  EXPECT_TRUE(json["recompute_blocks"].is_null());
  EXPECT_EQ(json["zero_group"], 4) << "all of dp";
}

} // namespace dtc::report
