#include "dtc-rt/CPU/CpuPlatform.h"

#include <fstream>
#include <set>
#include <sstream>

namespace dtc::rt {
namespace {

/// LLVM's and the kernel's names differ in '.', '_' and '-' ("sse4.1",
/// "avx512-bf16"), and in a few words.
std::string plain(const std::string &name) {
  std::string result;
  for (char c : name)
    if (c != '.' && c != '_' && c != '-')
      result += c;
  static const std::pair<const char *, const char *> kWords[] = {
      {"sse3", "pni"},          {"lzcnt", "abm"},         {"sha", "shani"},
      {"rdrnd", "rdrand"},      {"sahf", "lahflm"},       {"64bit", "lm"},
      {"cmov", "cmov"},         {"prfchw", "3dnowprefetch"}, {"crc32", "sse42"},
      {"pclmul", "pclmulqdq"},
  };
  for (auto [llvm, kernel] : kWords)
    if (result == llvm)
      return kernel;
  return result;
}

std::set<std::string> processorFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0)
      continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;)
      flags.insert(plain(word));
    break; // all processors of a machine have the same
  }
  return flags;
}

const char *machineArch() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

std::string plainArch(const std::string &name) { return name == "x86_64" ? "x86-64" : name; }

} // namespace

Status checkProcessor(const Manifest &manifest) {
  if (!manifest.arch.empty() && plainArch(manifest.arch) != machineArch())
    return {ErrorCategory::NoFit, std::string("was compiled for another processor than this ") +
                                      machineArch() + ": " + manifest.arch +
                                      "; compile the model again on this machine"};
  std::set<std::string> flags = processorFlags();
  std::string missing;
  for (const std::string &feature : manifest.processorFeatures)
    if (!flags.contains(plain(feature)))
      missing += (missing.empty() ? "" : ", ") + feature;
  if (!missing.empty())
    return {ErrorCategory::NoFit, "was compiled for processor features that this machine lacks "
                                  "(compile the model again here): " +
                                      missing};
  return Status::ok();
}

} // namespace dtc::rt
