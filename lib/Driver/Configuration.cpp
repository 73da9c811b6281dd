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
static Result<std::vector<std::string>> argumentsIn(YAML::Node root, const std::string &path,
                                                    const CLI::App &command) {
  auto refuse = [&](const YAML::Node &at, const std::string &what) {
    return Error{path + ":" + std::to_string(at.Mark().line + 1) + ": " + what};
  };
  std::vector<std::string> known, arguments;
  std::set<std::string> given;
  for (const CLI::Option *option : command.get_options())
    for (auto &name : option->get_lnames())
      known.push_back(name);
  if (root.IsNull())
    return arguments;
  if (!root.IsMap())
    return refuse(root, "expected a mapping of flags");
  for (const auto &[flag, value] : takeTrainingKeys(root, path)) {
    if (flag != "model")
      arguments.push_back("--" + flag + "=" + value);
    else if (command.count("model") == 0)
      arguments.push_back(value);
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
    bool flag = command.get_option("--" + key)->get_items_expected_max() == 0;
    auto add = [&](const YAML::Node &value) {
      std::string text = value.as<std::string>();
      if (!flag)
        arguments.push_back("--" + key + "=" + text);
      else if (value.as<bool>())
        arguments.push_back("--" + key);
    };
    if (entry.second.IsSequence())
      for (auto value : entry.second)
        add(value);
    else
      add(entry.second);
  }
  return arguments;
}

Result<std::vector<std::string>> configArguments(const std::string &path, const CLI::App &command) {
  Result<std::string> text = plan::readText(path, "configuration");
  if (!text)
    return text.error();
  return plan::readYaml<std::vector<std::string>>(
      *text, path, [&](const YAML::Node &root) { return argumentsIn(root, path, command); });
}

} // namespace dtc::driver
