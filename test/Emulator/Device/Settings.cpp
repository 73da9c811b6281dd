#include "Emulator/Device/Settings.h"

#include <algorithm>
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

uint64_t readNumber(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? parseNumber(name, text) : otherwise;
}

std::vector<uint64_t> readNumbers(const char *name) {
  const char *text = std::getenv(name);
  std::vector<uint64_t> numbers;
  std::istringstream parts(text ? text : "");
  for (std::string part; std::getline(parts, part, ',');)
    numbers.push_back(parseNumber(name, part.c_str()));
  return numbers;
}

std::string readText(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

Hang readHang(const char *name) {
  const std::string text = readText(name);
  if (text.empty())
    return {};
  const size_t nameEnd = std::min(text.find(','), text.size() - 1);
  return {text.substr(0, nameEnd), parseNumber(name, text.c_str() + nameEnd + 1)};
}

Settings &ownSettings() {
  static Settings read = {
      readNumber("DTC_EMULATED_GPU_MEMORY", uint64_t(16) << 30),
      readNumber("DTC_EMULATED_GPU_CONTEXT", uint64_t(512) << 20),
      readNumber("DTC_EMULATED_NCCL_MEMORY", uint64_t(256) << 20),
      static_cast<int>(readNumber("DTC_EMULATED_GPU_COUNT", 8)),
      readNumber("DTC_EMULATED_GPU_SEED", 1),
      std::chrono::microseconds(readNumber("DTC_EMULATED_GPU_DELAY_US", 50)),
      std::chrono::seconds(readNumber("DTC_EMULATED_NCCL_TIMEOUT_S", 30)),
      static_cast<size_t>(readNumber("DTC_EMULATED_GPU_QUEUES", 0)),
      readNumbers("DTC_EMULATED_CUBLASLT_MS"),
      static_cast<int>(readNumber("DTC_EMULATED_NCCL_VERSION", 22809)),
      readText("DTC_EMULATED_GPU_TRAFFIC"),
      readText("DTC_EMULATED_GPU_CALLS"),
      readText("DTC_EMULATED_GPU_FAILS"),
      readHang("DTC_EMULATED_GPU_HANGS"),
  };
  return read;
}

} // namespace

const Settings &settings() { return ownSettings(); }

void setCollectiveTimeout(std::chrono::seconds time) { ownSettings().collectiveTimeout = time; }

} // namespace dtc::emulator
