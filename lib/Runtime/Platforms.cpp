#include "dtc-rt/Platforms.h"

#include "dtc-rt/CPU/CpuPlatform.h"
#include "dtc-rt/CUDA/CudaPlatform.h"

#include <algorithm>

namespace dtc::rt {
namespace {

struct Entry {
  const char *target;
  Result<std::unique_ptr<Platform>> (*open)(const Manifest &manifest, int64_t ranksHere);
};

constexpr Entry kPlatforms[] = {
    {"cpu", openCpuPlatform},
    {"cuda", openCudaPlatform},
};

const Entry *find(const std::string &target) {
  auto entry = std::ranges::find(kPlatforms, target, &Entry::target);
  return entry == std::end(kPlatforms) ? nullptr : entry;
}

} // namespace

Status checkTarget(const Manifest &manifest) {
  if (find(manifest.target))
    return Status::ok();
  std::string known;
  for (const Entry &entry : kPlatforms)
    known += (known.empty() ? "" : " or ") + std::string(entry.target);
  return {ErrorCategory::NoFit,
          "was compiled for a target that this dtc-run does not have (compile "
          "with --target " +
              known + "): " + manifest.target};
}

Result<std::unique_ptr<Platform>> openPlatform(const Manifest &manifest, int64_t ranksHere) {
  if (Status status = checkTarget(manifest); !status.isOk())
    return status;
  return find(manifest.target)->open(manifest, ranksHere);
}

} // namespace dtc::rt
