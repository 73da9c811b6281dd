#include "OwnCluster.h"

#include "dtc/Driver/Diagnostics.h"
#include "dtc/Driver/WriteText.h"

#include "dtc-io/UserCache.h"
#include "dtc-rt/Program/MappedFile.h"

#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <filesystem>
#include <thread>

namespace dtc::driver {

namespace fs = std::filesystem;

/// Empty where nothing is to be kept, or there is no place for it.
static std::string measuredFile() {
  int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  return io::inUserCache("cpu-" + llvm::sys::getHostCPUName().str() + "-" + std::to_string(cores) +
                             ".yaml",
                         io::Variable::Calibration);
}

static Outcome<plan::Cluster> load(const std::string &nameOrFile) {
  auto cluster = plan::loadCluster(nameOrFile);
  if (!cluster)
    return fail(cluster.error());
  return std::move(*cluster);
}

Outcome<plan::Cluster> ownCluster(bool measures) {
  std::string file = measuredFile();
  std::error_code error;
  if (!file.empty() && fs::exists(file, error))
    return load(file);
  if (!file.empty() && measures)
    fs::create_directories(fs::path(file).parent_path(), error);
  if (file.empty() || !measures || !rt::OutputFile::create(file, 0))
    return load("cpu");
  printNote("measuring this machine, once: " + file +
            " (--cluster cpu or DTC_CALIBRATION=off do without)");
  if (Failure failure = writeText(file, plan::toYaml(measureMachine())))
    return *failure;
  return load(file);
}

} // namespace dtc::driver
