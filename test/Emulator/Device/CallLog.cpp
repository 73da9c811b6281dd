#include "Emulator/Device/CallLog.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Device/Settings.h"
#include "dtc-cuda/Driver.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace dtc::emulator {
namespace {

/// Written when the process ends: a line for each function, its name and how often it was called.
class CallLog {
public:
  ~CallLog() {
    std::ofstream file(settings().callsFile, std::ios::app);
    for (const auto &[function, count] : counts)
      file << function << " " << count << "\n";
    if (!file.flush())
      std::fprintf(stderr, "emulated GPU: cannot write %s\n", settings().callsFile.c_str());
  }
  void add(std::string_view function) {
    std::lock_guard lock(mutex);
    ++counts[std::string(function)];
  }

private:
  std::mutex mutex;
  std::map<std::string, long long> counts;
};

} // namespace

void hangIfAsked(std::string_view name) {
  static std::atomic<uint64_t> begun{0};
  if (settings().hang.empty() || !settings().hang.starts_with(concat(name, ",")) ||
      settings().hang != concat(name, ",", ++begun))
    return;
  for (;;)
    std::this_thread::sleep_for(std::chrono::hours(1));
}

void noteCall(std::string_view function) {
  if (function.ends_with("_v2"))
    function.remove_suffix(3);
  if (!settings().callsFile.empty()) {
    static CallLog log;
    log.add(function);
  }
  require(settings().failingFunction != function, cuda::CUDA_ERROR_NOT_SUPPORTED,
          "it was asked to fail (DTC_EMULATED_GPU_FAILS)");
  hangIfAsked(function);
}

} // namespace dtc::emulator
