#include "Emulator/Driver/CallLog.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Device/Hang.h"
#include "Emulator/Device/Settings.h"
#include "dtc-cuda/Driver.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

namespace dtc::emulator {
namespace {

/// Written when the process ends: a line for each function, its name and how often it was called.
class CallLog {
public:
  ~CallLog() {
    std::FILE *file = std::fopen(settings().callsFile.c_str(), "a");
    if (!file) {
      std::fprintf(stderr, "emulated GPU: cannot write %s\n", settings().callsFile.c_str());
      return;
    }
    for (const auto &[function, count] : counts)
      std::fprintf(file, "%s %lld\n", function.c_str(), count);
    std::fclose(file);
  }
  void add(const char *function) {
    std::lock_guard lock(mutex);
    ++counts[function];
  }

private:
  std::mutex mutex;
  std::map<std::string, long long> counts;
};

} // namespace

void noteCall(const char *function) {
  if (!settings().callsFile.empty()) {
    static CallLog log;
    log.add(function);
  }
  if (settings().failingFunction == function)
    throw Fault(cuda::CUDA_ERROR_NOT_SUPPORTED, "it was asked to fail (DTC_EMULATED_GPU_FAILS)");
  hangIfAsked(function);
}

} // namespace dtc::emulator
