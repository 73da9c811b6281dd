#include "Emulator/Device/Settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace dtc::emulator {

namespace {

uint64_t parseNumber(const char *name, const char *text) {
  char *end = nullptr;
  uint64_t value = std::strtoull(text, &end, 10);
  const char *suffixes = "KMG";
  if (end != text && *end)
    if (const char *suffix = std::strchr(suffixes, *end)) {
      value <<= 10 * (suffix - suffixes + 1);
      ++end;
    }
  if (end == text || *end) {
    std::fprintf(stderr, "emulated GPU: %s is no number: %s\n", name, text);
    std::exit(2);
  }
  return value;
}

Settings &ownSettings() {
  static Settings read;
  return read;
}

} // namespace

uint64_t numberSetting(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? parseNumber(name, text) : otherwise;
}

std::vector<uint64_t> numbersSetting(const char *name) {
  std::vector<uint64_t> numbers;
  std::istringstream parts(textSetting(name));
  for (std::string part; std::getline(parts, part, ',');)
    numbers.push_back(parseNumber(name, part.c_str()));
  return numbers;
}

std::string textSetting(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

const Settings &settings() { return ownSettings(); }

void setCollectiveTimeout(std::chrono::seconds time) { ownSettings().collectiveTimeout = time; }

} // namespace dtc::emulator
