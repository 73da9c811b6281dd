// A plan in a program's own settings.
#include "ToolKeys.h"

#include "dtc/Plan/Tools/ToolSettings.h"

#include <algorithm>

namespace dtc::plan {

//===-- which settings ----------------------------------------------------===//

bool holds(const ToolSetting &setting, const Facts &facts) {
  return std::all_of(setting.when.begin(), setting.when.end(), [&](const ToolCondition &condition) {
    auto fact = facts.find(condition.fact);
    return fact != facts.end() && (fact->second == condition.value) != condition.isNegated;
  });
}

/// "{accumulation} microbatches" with the facts in place of their names.
static std::string filled(const std::string &text, const Facts &facts) {
  std::string result;
  size_t start = 0;
  for (size_t open; (open = text.find('{', start)) != std::string::npos;) {
    const size_t close = text.find('}', open);
    if (close == std::string::npos)
      break;
    auto fact = facts.find(text.substr(open + 1, close - open - 1));
    result += text.substr(start, open - start) + (fact == facts.end() ? "?" : fact->second);
    start = close + 1;
  }
  return result + text.substr(start);
}

/// The program's word for what the fact is; none where it has none.
static std::optional<std::string> wordOf(const ToolSetting &setting, const Facts &facts) {
  if (setting.fact.empty())
    return setting.value.value_or("");
  auto fact = facts.find(setting.fact);
  if (fact == facts.end())
    return std::nullopt;
  if (setting.words.empty())
    return fact->second;
  for (const auto &[ours, theirs] : setting.words)
    if (ours == fact->second)
      return theirs;
  return std::nullopt;
}

std::vector<SaidSetting> toolSettings(const Preset &preset, const Facts &facts,
                                      const std::map<std::string, std::string> &meanings) {
  std::vector<SaidSetting> result;
  for (const ToolSetting &setting : preset.settings) {
    auto value = wordOf(setting, facts);
    if (!value || !holds(setting, facts))
      continue;
    auto meaning = meanings.find(setting.about);
    std::string comment = filled(setting.why, facts);
    if (comment.empty() && meaning != meanings.end())
      comment = meaning->second;
    result.push_back({setting.key, *value, filled(setting.program, facts), setting.about, comment});
  }
  return result;
}

//===-- forms -------------------------------------------------------------===//

/// Numbers and truth values need no quotes in any form.
static bool isPlainValue(const std::string &value) {
  return value == "true" || value == "false" || toInteger(value);
}

static std::string quoted(const std::string &value) {
  return isPlainValue(value) ? value : "\"" + value + "\"";
}

static std::string padded(const std::string &text, size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

/// A line of the text, and its comment.
using Line = std::pair<std::string, std::string>;

static std::string withComments(const std::vector<Line> &lines) {
  size_t width = 0;
  for (const Line &line : lines)
    if (!line.second.empty())
      width = std::max(width, line.first.size());
  std::string text;
  for (const auto &[line, comment] : lines)
    text += comment.empty() ? line + "\n" : padded(line, width) + "  # " + comment + "\n";
  return text;
}

static std::string flat(const Preset &preset, const std::vector<SaidSetting> &settings) {
  const bool isFlags = preset.form == SettingsForm::Flags;
  std::vector<Line> lines;
  for (const SaidSetting &setting : settings)
    lines.emplace_back(isFlags ? setting.key + (setting.value.empty() ? "" : " " + setting.value)
                               : setting.key + "=" + setting.value,
                       setting.comment);
  return withComments(lines);
}

/// Sections of one level: "parallelism.tensor_parallel_degree".
static std::string toml(const std::vector<SaidSetting> &settings) {
  std::vector<Line> lines;
  std::string section;
  for (const SaidSetting &setting : settings) {
    const std::vector<std::string> path = keyPath(setting.key);
    if (path.front() != section)
      lines.emplace_back(std::string(lines.empty() ? "" : "\n") + "[" + path.front() + "]", "");
    section = path.front();
    lines.emplace_back(path.back() + " = " + quoted(setting.value), setting.comment);
  }
  return withComments(lines);
}

/// How many names two keys begin with alike.
static size_t commonDepth(const std::vector<std::string> &a, const std::vector<std::string> &b) {
  size_t depth = 0;
  while (depth + 1 < std::min(a.size(), b.size()) && a[depth] == b[depth])
    ++depth;
  return depth;
}

static std::string yaml(const std::vector<SaidSetting> &settings) {
  std::vector<Line> lines;
  std::vector<std::string> before;
  for (const SaidSetting &setting : settings) {
    const std::vector<std::string> path = keyPath(setting.key);
    for (size_t depth = commonDepth(path, before); depth + 1 < path.size(); ++depth)
      lines.emplace_back(std::string(2 * depth, ' ') + path[depth] + ":", "");
    // What YAML would read as a truth value is meant as a word.
    const std::string value = setting.value == "no" ? "\"no\"" : setting.value;
    lines.emplace_back(std::string(2 * (path.size() - 1), ' ') + path.back() + ": " + value,
                       setting.comment);
    before = path;
  }
  return withComments(lines);
}

static std::string json(const std::vector<SaidSetting> &settings) {
  std::string text = "{";
  std::vector<std::string> before;
  auto indent = [](size_t depth) { return "\n" + std::string(2 * depth, ' '); };
  for (const SaidSetting &setting : settings) {
    const std::vector<std::string> path = keyPath(setting.key);
    const size_t common = before.empty() ? 0 : commonDepth(path, before);
    for (size_t depth = before.size(); depth > common + 1; --depth)
      text += indent(depth - 1) + "}";
    if (!before.empty())
      text += ",";
    for (size_t depth = common; depth + 1 < path.size(); ++depth)
      text += indent(depth + 1) + "\"" + path[depth] + "\": {";
    text += indent(path.size()) + "\"" + path.back() + "\": " + quoted(setting.value);
    before = path;
  }
  for (size_t depth = before.size(); depth > 1; --depth)
    text += indent(depth - 1) + "}";
  return text + "\n}\n";
}

std::string settingsText(const Preset &preset, const Facts &facts,
                         const std::vector<SaidSetting> &settings, bool isFile) {
  std::vector<SaidSetting> keys, programs;
  for (const SaidSetting &setting : settings)
    (setting.key.empty() ? programs : keys).push_back(setting);
  const bool isJson = preset.form == SettingsForm::Json;
  std::string head =
      "# " + preset.title + " " + preset.release + ": " + filled(preset.launch, facts) + "\n";
  std::vector<Line> beside;
  for (const SaidSetting &setting : programs)
    beside.emplace_back("# your program: " + setting.program, setting.comment);
  if (isJson)
    for (const SaidSetting &setting : keys)
      beside.emplace_back("# " + setting.key, setting.comment);
  std::string body;
  switch (preset.form) {
  case SettingsForm::Flags:
  case SettingsForm::Assignments:
    body = flat(preset, keys);
    break;
  case SettingsForm::Yaml:
    body = yaml(keys);
    break;
  case SettingsForm::Toml:
    body = toml(keys);
    break;
  case SettingsForm::Json:
    body = json(keys);
    break;
  }
  return isJson && isFile ? body : head + body + withComments(beside);
}

} // namespace dtc::plan
