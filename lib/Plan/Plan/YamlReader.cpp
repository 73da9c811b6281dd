#include "dtc/Plan/Plan/YamlReader.h"

namespace dtc::plan {
namespace {

constexpr int64_t kMostNodes = 1 << 21, kMostDepth = 64;

/// Visits what a reader could visit, aliases as often as they stand there.
class NodeCounter {
public:
  explicit NodeCounter(const std::string &file) : file(file) {}

  void visit(const YAML::Node &node, int64_t depth) {
    if (++count > kMostNodes)
      throw YamlError(file + ": its aliases stand for more than " + std::to_string(kMostNodes) +
                          " values",
                      ErrorCategory::InputRefused);
    if (depth > kMostDepth)
      throw YamlError(file + ": nests deeper than " + std::to_string(kMostDepth) + " levels",
                      ErrorCategory::InputRefused);
    if (node.IsSequence())
      for (const YAML::Node &item : node)
        visit(item, depth + 1);
    else if (node.IsMap())
      for (const auto &entry : node) {
        visit(entry.first, depth + 1);
        visit(entry.second, depth + 1);
      }
  }

private:
  const std::string &file;
  int64_t count = 0;
};

} // namespace

YAML::Node parseYaml(const std::string &text, const std::string &file) {
  // Each node needs one of these behind it or before it; yaml-cpp takes some 300 bytes for each.
  const auto separators = std::count_if(text.begin(), text.end(), [](char c) {
    return c == ',' || c == '\n' || c == '[' || c == '{' || c == ':' || c == '-';
  });
  if (separators > 2 * kMostNodes)
    throw YamlError(file + ": has more than " + std::to_string(kMostNodes) + " values",
                    ErrorCategory::InputRefused);
  std::vector<YAML::Node> documents = YAML::LoadAll(text);
  if (documents.size() > 1)
    throw YamlError(file + ": expected one YAML document, found " +
                        std::to_string(documents.size()),
                    ErrorCategory::InputRefused);
  if (documents.empty())
    return YAML::Node();
  if (text.find('*') != std::string::npos)
    NodeCounter(file).visit(documents.front(), 0);
  return documents.front();
}

} // namespace dtc::plan
