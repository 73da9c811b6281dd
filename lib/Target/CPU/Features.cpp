#include "dtc/Target/CPU/Features.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>

namespace dtc::cpu {

Processor hostProcessor() {
  Processor host;
  host.name = llvm::sys::getHostCPUName().str();
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    if (feature.second)
      host.features.push_back(feature.first().str());
  std::sort(host.features.begin(), host.features.end());
  return host;
}

std::vector<std::string> recordedFeatures(const std::vector<std::string> &features) {
  static const char *const kRecorded[] = {"avx",       "avx2",     "avx512bf16", "avx512bw",
                                          "avx512cd",  "avx512dq", "avx512f",    "avx512fp16",
                                          "avx512vbmi", "avx512vl", "avx512vnni", "bmi1",
                                          "bmi2",      "f16c",     "fma",        "sse4_1",
                                          "sse4_2"};
  std::vector<std::string> recorded;
  for (std::string feature : features) {
    if (feature == "bmi")
      feature = "bmi1";
    std::replace(feature.begin(), feature.end(), '.', '_');
    if (std::binary_search(std::begin(kRecorded), std::end(kRecorded), feature,
                           [](std::string_view a, std::string_view b) { return a < b; }))
      recorded.push_back(feature);
  }
  std::sort(recorded.begin(), recorded.end());
  return recorded;
}

} // namespace dtc::cpu
