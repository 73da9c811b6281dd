// Reading YAML maps with errors that name file, line and key.
//
//   YamlMap device(node, "cluster.yaml", "device");
//   auto memory = device.number<double>("memory_gb", 0);      // must be there, 0 at least
//   auto rate = device.get<double>("rate", 1.0);              // may be left out
//   device.finish();                                          // refuses all other keys
//
// What is wrong is thrown, as "cluster.yaml:7: unknown key in device: memroy_gb (did you mean
// memory_gb?)".
#pragma once

#include "dtc/Plan/Plan/Result.h"
#include "dtc/Plan/Plan/Spec.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <type_traits>

namespace dtc::plan {

/// Thrown inside a reader, turned into an Error at its entry.
struct YamlError : std::runtime_error {
  YamlError(const std::string &message, ErrorCategory category)
      : std::runtime_error(message), category(category) {}
  ErrorCategory category;
};

/// One map of a file. Ask for every key it may have, then `finish`.
class YamlMap {
public:
  YamlMap(const YAML::Node &node, std::string file, std::string what)
      : node(node), file(std::move(file)), what(std::move(what)) {
    if (!node.IsMap())
      fail(node, this->what + " must be a map");
    std::set<std::string> keys;
    for (auto entry : node)
      if (entry.first.IsScalar() && !keys.insert(entry.first.Scalar()).second)
        fail(entry.first, this->what + " has a key twice: " + entry.first.Scalar());
  }

  bool has(const std::string &key) {
    known.push_back(key);
    return bool(node[key]);
  }
  YAML::Node at(const std::string &key) {
    if (!has(key))
      fail(node, what + " lacks the key: " + key);
    return node[key];
  }
  template <typename T> T get(const std::string &key) { return convert<T>(at(key), key); }
  template <typename T> T get(const std::string &key, T otherwise) {
    return has(key) ? convert<T>(node[key], key) : otherwise;
  }
  /// A number of at least `low`; a fraction of at most kLargest, so that products of a few
  /// stay finite.
  template <typename T> T number(const std::string &key, T low, std::optional<T> otherwise = {}) {
    if (otherwise && !has(key))
      return *otherwise;
    T value = get<T>(key);
    if (!(value >= low))
      fail(node[key], key + " is too small: " + node[key].Scalar());
    if (std::is_floating_point_v<T> && double(value) > kLargest)
      fail(node[key], key + " is too large: " + node[key].Scalar());
    return value;
  }
  /// A number from `low` to `high`.
  template <typename T>
  T within(const std::string &key, T low, T high, std::optional<T> otherwise = {}) {
    T value = number<T>(key, low, otherwise);
    if (value > high)
      fail(node[key], key + " is too large: " + node[key].Scalar());
    return value;
  }
  /// Of devices, ranks and the like.
  int64_t count(const std::string &key, int64_t low, std::optional<int64_t> otherwise = {}) {
    return within(key, low, kMostDegree, otherwise);
  }
  YamlMap map(const std::string &key) { return {at(key), file, key}; }
  /// The items of a list, each a map.
  std::vector<YamlMap> items(const std::string &key) {
    std::vector<YamlMap> result;
    YAML::Node list = at(key);
    if (!list.IsSequence())
      fail(list, key + " must be a list");
    for (const YAML::Node &item : list)
      result.emplace_back(item, file, key);
    return result;
  }

  /// Refuses keys that were never asked for.
  void finish() {
    for (auto entry : node) {
      std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      if (std::find(known.begin(), known.end(), key) != known.end())
        continue;
      constexpr size_t kMostShown = 60; // a colon left out makes a key of half the file
      if (key.size() > kMostShown)
        key = key.substr(0, kMostShown) + "...";
      std::string close = nearest(key, known);
      throw YamlError(place(entry.first) + "unknown key in " + what + ": " + key +
                          (close.empty() ? "" : " (did you mean " + close + "?)"),
                      ErrorCategory::Usage);
    }
  }

  [[noreturn]] void fail(const YAML::Node &at, const std::string &message) const {
    throw YamlError(place(at) + message, ErrorCategory::InputRefused);
  }
  const std::string &fileName() const { return file; }

private:
  static constexpr double kLargest = 1e15;

  template <typename T> T convert(const YAML::Node &value, const std::string &key) const {
    try {
      return value.as<T>();
    } catch (const YAML::Exception &) {
      fail(value, "wrong value for " + key + (value.IsScalar() ? ": " + value.Scalar() : ""));
    }
  }
  std::string place(const YAML::Node &at) const {
    YAML::Mark mark = at.Mark();
    return file + ":" + (mark.is_null() ? "" : std::to_string(mark.line + 1) + ":") + " ";
  }

  YAML::Node node;
  std::string file, what;
  std::vector<std::string> known;
};

/// The only document of the text, an empty one where there is none. Throws YamlError where the text
/// has more nodes than any file of ours, its aliases followed: a few kilobytes of them say
/// billions.
YAML::Node parseYaml(const std::string &text, const std::string &file);

/// Runs `read` on the parsed text and turns what it throws into an Error.
template <typename T, typename Read>
Result<T> readYaml(const std::string &text, const std::string &file, Read read) {
  try {
    return read(parseYaml(text, file));
  } catch (const YamlError &error) {
    return Error{error.what(), error.category};
  } catch (const YAML::Exception &error) {
    return Error{file + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg};
  }
}

} // namespace dtc::plan
