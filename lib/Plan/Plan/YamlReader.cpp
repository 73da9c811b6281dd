#include "dtc/Plan/Plan/YamlReader.h"

#include <algorithm>
#include <sstream>
#include <yaml-cpp/eventhandler.h>

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

/// Hears documents without keeping them. yaml-cpp finds no end of documents behind a lone comma, so
/// they can't all be loaded to be counted.
class Nobody : public YAML::EventHandler {
  using Mark = YAML::Mark;
  using Anchor = YAML::anchor_t;
  using Style = YAML::EmitterStyle::value;
  void OnDocumentStart(const Mark &) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark &, Anchor) override {}
  void OnAlias(const Mark &, Anchor) override {}
  void OnScalar(const Mark &, const std::string &, Anchor, const std::string &) override {}
  void OnSequenceStart(const Mark &, const std::string &, Anchor, Style) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark &, const std::string &, Anchor, Style) override {}
  void OnMapEnd() override {}
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
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Nobody nobody;
  if (parser.HandleNextDocument(nobody) && parser.HandleNextDocument(nobody))
    throw YamlError(file + ": expected one YAML document, found a second one",
                    ErrorCategory::InputRefused);
  YAML::Node root = YAML::Load(text);
  if (text.find('*') != std::string::npos)
    NodeCounter(file).visit(root, 0);
  return root;
}

} // namespace dtc::plan
