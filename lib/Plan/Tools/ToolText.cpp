#include "ToolText.h"

#include "dtc/Plan/Plan/YamlReader.h"

#include <algorithm>
#include <sstream>

namespace dtc::plan {

namespace {

/// Settings of any program take a hundredth of these bytes. A name is copied for all that is below
/// it.
constexpr size_t kMostBytes = 1 << 20, kMostName = 256;

/// A word of a command, and the line on which it stands.
struct Word {
  std::string text;
  int64_t line = 1;
};

} // namespace

/// Words as a shell has them: quotes, comments, lines that go on after a backslash.
static std::vector<Word> shellWords(const std::string &text) {
  std::vector<Word> words;
  std::string word;
  bool isOpen = false;
  char quote = 0;
  int64_t line = 1;
  auto end = [&] {
    if (isOpen)
      words.push_back({word, line});
    word.clear();
    isOpen = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote ? c == quote : (c == '"' || c == '\'')) {
      quote = quote ? 0 : c;
      isOpen = true;
    } else if (!quote && (c == '\\' && i + 1 < text.size() && text[i + 1] == '\n')) {
      end();
    } else if (!quote && std::isspace(static_cast<unsigned char>(c))) {
      end();
    } else if (!quote && c == '#' && !isOpen) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else {
      word += c;
      isOpen = true;
    }
    if (i < text.size() && text[i] == '\n')
      ++line;
  }
  end();
  return words;
}

static bool isFlag(const std::string &word) { return word.starts_with("-") && !toInteger(word); }

static std::vector<ToolEntry> flagEntries(const std::string &text, const std::string &name) {
  std::vector<ToolEntry> entries;
  const std::vector<Word> words = shellWords(text);
  for (size_t i = 0; i < words.size(); ++i) {
    if (!isFlag(words[i].text))
      continue;
    ToolEntry entry{words[i].text, "", name};
    if (size_t equals = entry.key.find('='); equals != std::string::npos) {
      entry.value = entry.key.substr(equals + 1);
      entry.key.resize(equals);
    } else if (i + 1 < words.size() && !isFlag(words[i + 1].text)) {
      entry.value = words[i + 1].text;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

static std::vector<ToolEntry> assignmentEntries(const std::string &text, const std::string &name) {
  std::vector<ToolEntry> entries;
  for (const Word &word : shellWords(text))
    if (size_t equals = word.text.find('='); equals != std::string::npos && equals > 0)
      entries.push_back({word.text.substr(0, equals), word.text.substr(equals + 1), name});
  return entries;
}

static std::string tooLong(const std::string &name) {
  return "expected names of up to " + std::to_string(kMostName) + " letters: " + name;
}

static void addYaml(const YAML::Node &node, const std::string &key, const std::string &name,
                    std::vector<ToolEntry> &entries) {
  const std::string place = name + ":" + std::to_string(node.Mark().line + 1);
  if (key.size() > kMostName)
    throw YamlError(place + ": " + tooLong(key), ErrorCategory::InputRefused);
  if (node.IsMap())
    for (auto entry : node)
      addYaml(entry.second, (key.empty() ? "" : key + ".") + entry.first.as<std::string>(""), name,
              entries);
  else if (node.IsScalar())
    entries.push_back({key, node.Scalar(), place});
}

static std::string trimmed(const std::string &text) {
  const size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

/// Up to a comment, which doesn't begin within quotes.
static std::string withoutComment(const std::string &line) {
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quote ? line[i] == quote : (line[i] == '"' || line[i] == '\''))
      quote = quote ? 0 : line[i];
    else if (!quote && line[i] == '#')
      return line.substr(0, i);
  }
  return line;
}

static std::string unquoted(const std::string &text) {
  const bool isQuoted = text.size() > 1 && (text.front() == '"' || text.front() == '\'') &&
                        text.back() == text.front();
  return isQuoted ? text.substr(1, text.size() - 2) : text;
}

/// Tables of numbers, truth values and strings. Arrays say nothing of a plan.
static Result<std::vector<ToolEntry>> tomlEntries(const std::string &text,
                                                  const std::string &name) {
  std::vector<ToolEntry> entries;
  std::istringstream stream(text);
  std::string section;
  int64_t number = 0;
  bool inArray = false;
  for (std::string line; std::getline(stream, line);) {
    const std::string place = name + ":" + std::to_string(++number);
    line = trimmed(withoutComment(line));
    if (inArray || line.empty()) {
      inArray = inArray && line.find(']') == std::string::npos;
      continue;
    }
    const size_t equals = line.find('=');
    if (line.front() == '[' && line.back() == ']') {
      section = line.substr(1, line.size() - 2);
      if (section.size() > kMostName)
        return Error{place + ": " + tooLong(section)};
    } else if (equals == std::string::npos) {
      return Error{place + ": expected KEY = VALUE or [SECTION]: " + line};
    } else if (const std::string value = trimmed(line.substr(equals + 1)); value.starts_with("[")) {
      inArray = value.find(']') == std::string::npos;
    } else {
      entries.push_back({(section.empty() ? "" : section + ".") + trimmed(line.substr(0, equals)),
                         unquoted(value), place});
    }
  }
  return entries;
}

Result<std::vector<ToolEntry>> toolEntries(SettingsForm form, const std::string &text,
                                           const std::string &name) {
  if (text.size() > kMostBytes)
    return Error{name + ": settings have no more than " + std::to_string(kMostBytes) +
                 " bytes, got " + std::to_string(text.size())};
  switch (form) {
  case SettingsForm::Flags:
    return flagEntries(text, name);
  case SettingsForm::Assignments:
    return assignmentEntries(text, name);
  case SettingsForm::Toml:
    return tomlEntries(text, name);
  case SettingsForm::Yaml:
  case SettingsForm::Json:
    break;
  }
  return readYaml<std::vector<ToolEntry>>(text, name, [&](const YAML::Node &root) {
    std::vector<ToolEntry> entries;
    if (!root.IsMap())
      throw YamlError(name + ": expected a mapping of settings", ErrorCategory::InputRefused);
    addYaml(root, "", name, entries);
    return entries;
  });
}

} // namespace dtc::plan
