// Presets from YAML.
#include "SettingValues.h"
#include "SoftwareYaml.h"

#include "dtc/Plan/Plan/Preset.h"

#include <algorithm>

namespace dtc::plan {

/// The text of Presets.yaml, which CMake writes into a source file.
extern const char *const kPresetsText;

//===-- parts -------------------------------------------------------------===//

static std::vector<std::string> strings(YamlMap &map, const std::string &key) {
  return map.get<std::vector<std::string>>(key, {});
}

/// Switches that a program has in some precisions are lists of these.
static Software softwareIn(const YAML::Node &node, const std::string &file,
                           const std::string &precision) {
  YAML::Node resolved;
  for (auto entry : node) {
    if (!entry.second.IsSequence()) {
      resolved[entry.first.Scalar()] = entry.second;
      continue;
    }
    auto list = entry.second.as<std::vector<std::string>>();
    resolved[entry.first.Scalar()] = std::find(list.begin(), list.end(), precision) != list.end();
  }
  return readSwitches(YamlMap(resolved, file, "software"), Software());
}

template <typename T>
static std::vector<T> values(YamlMap &map, const std::string &key, std::vector<T> otherwise) {
  if (!map.has(key))
    return otherwise;
  std::vector<T> result;
  for (const std::string &text : strings(map, key)) {
    std::optional<T> value;
    if constexpr (std::is_same_v<T, int>) {
      if (auto number = toInteger(text))
        value = static_cast<int>(*number);
    } else {
      value = fromText<T>(text);
    }
    if (!value)
      map.fail(map.at(key), "unknown " + key + ": " + text);
    result.push_back(*value);
  }
  return result;
}

static ZeroGroups zeroGroupsOf(YamlMap &can) {
  const std::string text = can.get<std::string>("zero_group", "none");
  for (auto [name, kind] :
       {std::pair("none", ZeroGroups::None), std::pair("any", ZeroGroups::Any),
        std::pair("node", ZeroGroups::Node), std::pair("always node", ZeroGroups::AlwaysNode)})
    if (text == name)
      return kind;
  can.fail(can.at("zero_group"), "unknown zero_group: " + text);
}

/// A list of one value leaves no choice.
template <typename T> static std::optional<T> onlyOne(const std::vector<T> &list) {
  return list.size() == 1 ? std::optional(list.front()) : std::nullopt;
}

static Abilities readAbilities(YamlMap can, Preset &preset) {
  Abilities result{.program = preset.name, .mixesBlocks = false};
  const std::vector<std::string> degrees = strings(can, "degrees");
  for (auto [key, pin] :
       {std::pair("dp", &Spec::dp), std::pair("tp", &Spec::tp), std::pair("pp", &Spec::pp),
        std::pair("cp", &Spec::cp), std::pair("ep", &Spec::ep)})
    if (std::find(degrees.begin(), degrees.end(), key) == degrees.end())
      result.fixed.*pin = 1;
  if (!can.get("sp", false))
    result.fixed.sp = false;
  if (can.has("tp_weights"))
    result.fixed.tensorWeights = fromText<TensorWeights>(can.get<std::string>("tp_weights"));
  result.fixed.order = kDefaultOrder;
  result.zero = values<int>(can, "zero", {0});
  result.schedules = values<ScheduleKind>(can, "schedule", {});
  result.recompute = values<Recompute>(can, "recompute", {Recompute::None});
  result.offload = values<Offload>(can, "offload", {Offload::None});
  result.fixed.recompute = onlyOne(result.recompute);
  result.fixed.offload = onlyOne(result.offload);
  result.evenStages = can.get("even_stages", false);
  result.wholeHeads = can.get("whole_heads", false);
  result.expertsNeedSp = can.get("experts_need_sp", false);
  result.tensorNeedsSp = can.get("tp_needs_sp", false);
  preset.zeroGroups = zeroGroupsOf(can);
  result.groupsZero = preset.zeroGroups == ZeroGroups::Any || preset.zeroGroups == ZeroGroups::Node;
  return result;
}

//===-- settings ----------------------------------------------------------===//

static std::vector<std::pair<std::string, std::string>> wordsOf(YamlMap &map,
                                                                const std::string &key) {
  std::vector<std::pair<std::string, std::string>> result;
  if (map.has(key))
    for (auto entry : map.at(key))
      result.emplace_back(entry.first.Scalar(), entry.second.Scalar());
  return result;
}

static ToolSetting readSetting(YamlMap map) {
  constexpr std::string_view negation = "not ";
  ToolSetting setting;
  setting.key = map.get<std::string>("key", "");
  setting.program = map.get<std::string>("program", "");
  if (setting.key.empty() == setting.program.empty())
    map.fail(map.at("why"), "a setting has either key or program");
  setting.fact = map.get<std::string>("of", "");
  if (map.has("value"))
    setting.value = map.get<std::string>("value");
  setting.words = wordsOf(map, "is");
  for (auto &[fact, value] : wordsOf(map, "when")) {
    const bool isNegated = value.starts_with(negation);
    setting.when.push_back({fact, isNegated ? value.substr(negation.size()) : value, isNegated});
  }
  setting.about = map.get<std::string>("about", "");
  setting.why = map.get<std::string>("why", "");
  map.finish();
  return setting;
}

static SettingsForm formOf(YamlMap &map) {
  const std::string text = map.get<std::string>("form");
  for (auto [name, form] :
       {std::pair("flags", SettingsForm::Flags),
        std::pair("assignments", SettingsForm::Assignments), std::pair("yaml", SettingsForm::Yaml),
        std::pair("toml", SettingsForm::Toml), std::pair("json", SettingsForm::Json)})
    if (text == name)
      return form;
  map.fail(map.at("form"), "unknown form: " + text);
}

static PresetErrors readErrors(YamlMap map) {
  PresetErrors errors{map.within<double>("step_time", 0, 1), map.number<int64_t>("runs", 1),
                      map.within<double>("memory", 0, 1), map.get<std::string>("reason")};
  map.finish();
  return errors;
}

static Preset readPreset(const std::string &name, YamlMap map) {
  Preset preset;
  preset.name = name;
  preset.title = map.get<std::string>("title");
  preset.release = map.get<std::string>("release");
  preset.source = map.get<std::string>("source");
  preset.launch = map.get<std::string>("launch");
  preset.form = formOf(map);
  YamlMap can = map.map("can");
  for (const std::string &word : strings(can, "precision"))
    preset.software[word] = softwareIn(map.at("software"), map.fileName(), word);
  preset.abilities = readAbilities(std::move(can), preset);
  for (auto &[precision, software] : preset.software)
    software.evenStages |= preset.abilities.evenStages;
  preset.otherwise = wordsOf(map, "otherwise");
  for (YamlMap &setting : map.items("says"))
    preset.settings.push_back(readSetting(std::move(setting)));
  preset.suites = strings(map, "suites");
  preset.errors = readErrors(map.map("errors"));
  map.finish();
  return preset;
}

Result<std::vector<Preset>> presetsFromYaml(const std::string &text, const std::string &file) {
  return readYaml<std::vector<Preset>>(text, file, [&](const YAML::Node &root) {
    std::vector<Preset> result;
    for (auto entry : root)
      result.push_back(
          readPreset(entry.first.Scalar(), YamlMap(entry.second, file, entry.first.Scalar())));
    return result;
  });
}

//===-- those there are ---------------------------------------------------===//

const std::vector<Preset> &presets() {
  static const std::vector<Preset> all = *presetsFromYaml(kPresetsText, "Presets.yaml");
  return all;
}

Result<const Preset *> findPreset(const std::string &name) {
  std::vector<std::string> known;
  for (const Preset &preset : presets()) {
    if (preset.name == name)
      return &preset;
    known.push_back(preset.name);
  }
  std::string close = nearest(name, known), list;
  for (const std::string &each : known)
    list += (list.empty() ? "" : ", ") + each;
  return Error{"unknown program: " + name +
                   (close.empty() ? ", known are " + list : " (did you mean " + close + "?)"),
               ErrorCategory::Usage};
}

Abilities abilitiesOn(const Preset &preset, const Cluster &cluster, int64_t devices) {
  Abilities result = preset.abilities;
  const int64_t node =
      cluster.devicesPerNode > 0 ? std::min(cluster.devicesPerNode, devices) : devices;
  if (preset.zeroGroups == ZeroGroups::Node)
    result.zeroGroup = node;
  if (preset.zeroGroups == ZeroGroups::AlwaysNode && node > 1)
    result.fixed.zeroGroup = node;
  return result;
}

} // namespace dtc::plan
