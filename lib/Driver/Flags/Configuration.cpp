// --config: a YAML mapping as flags.
#include "CommandLine.h"
#include "TrainingFile.h"

#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Plan/Plan/TextFile.h"
#include "dtc/Plan/Plan/YamlReader.h"

#include <algorithm>
#include <set>

namespace dtc::driver {

using plan::Error;
using plan::Result;

/// "global_batch: 64" becomes "--global-batch=64". The model is taken where none is typed.
static Result<std::vector<ConfiguredFlag>> flagsIn(YAML::Node root, const std::string &path,
                                                   const CLI::App &command) {
  auto place = [&](int line) { return path + ":" + std::to_string(line); };
  auto refuse = [&](const YAML::Node &at, const std::string &what) {
    return Error{place(at.Mark().line + 1) + ": " + what};
  };
  std::vector<ConfiguredFlag> flags;
  std::vector<std::string> known;
  std::set<std::string> given;
  for (const CLI::Option *option : command.get_options())
    for (auto &name : option->get_lnames())
      known.push_back(name);
  if (root.IsNull())
    return flags;
  if (!root.IsMap())
    return refuse(root, "expected a mapping of flags");
  for (const auto &[flag, value, line] : takeTrainingKeys(root, path)) {
    if (flag != "model")
      flags.push_back({"--" + flag, "--" + flag + "=" + value, place(line)});
    else if (command.count("model") == 0)
      flags.push_back({"", value, place(line)});
    given.insert(flag);
  }
  for (auto entry : root) {
    std::string name = entry.first.as<std::string>(), key = name;
    std::replace(key.begin(), key.end(), '_', '-');
    bool isKnown = std::find(known.begin(), known.end(), key) != known.end();
    if (!isKnown && key == "data")
      continue; // compile's, which a plan doesn't depend on
    if (key == "config")
      return refuse(entry.first, "a configuration names no other: '" + name + "'");
    if (!isKnown) {
      std::string close = plan::nearest(key, known);
      return refuse(entry.first, "unknown key '" + name + "'" +
                                     (close.empty() ? "" : " (did you mean '" + close + "'?)"));
    }
    if (!given.insert(key).second)
      return refuse(entry.first, "key is given twice: '" + name + "'");
    const std::string flag = "--" + key;
    const bool isSwitch = command.get_option(flag)->get_items_expected_max() == 0;
    auto add = [&](const YAML::Node &value) {
      std::string text = value.as<std::string>();
      const std::string at = place(value.Mark().line + 1);
      if (!isSwitch)
        flags.push_back({flag, flag + "=" + text, at});
      else if (value.as<bool>())
        flags.push_back({flag, flag, at});
    };
    if (entry.second.IsSequence())
      for (auto value : entry.second)
        add(value);
    else
      add(entry.second);
  }
  return flags;
}

Result<std::vector<ConfiguredFlag>> readConfiguration(const std::string &path,
                                                      const CLI::App &command) {
  Result<std::string> text = plan::readText(path, "configuration");
  if (!text)
    return text.error();
  return plan::readYaml<std::vector<ConfiguredFlag>>(
      *text, path, [&](const YAML::Node &root) { return flagsIn(root, path, command); });
}

} // namespace dtc::driver
