// Launches of kernels, and the small things: copy, zero, constant.
#include "CpuOperations.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt {
namespace {

class LaunchOperation : public CpuOperation {
public:
  LaunchOperation(CpuQueue &queue, const LaunchSpec &spec, KernelFunction kernel)
      : CpuOperation(queue), kernel(kernel), extent(static_cast<int64_t>(spec.extent)),
        grain(static_cast<int64_t>(std::max<uint64_t>(spec.grain, 1))),
        numArguments(spec.numArguments), scratchPerThread(spec.scratchPerThread) {}

  Status run(const Address *addresses) override {
    char *scratch = scratchPerThread ? addresses[numArguments] : nullptr;
    ThreadTeam &team = queue.team();
    // Members take ranges of whole grains, the same ones every time.
    int64_t grains = extent / grain + (extent % grain != 0);
    int64_t members = std::clamp<int64_t>(grains, 1, team.size());
    team.run(static_cast<int>(members), [&](int member) {
      int64_t begin = std::min(share(grains, member, members) * grain, extent);
      int64_t end = std::min(share(grains, member + 1, members) * grain, extent);
      if (begin < end)
        kernel(addresses, begin, end, scratch + member * scratchPerThread);
    });
    return Status::ok();
  }

private:
  /// Grains that the members before `member` take.
  static int64_t share(int64_t grains, int64_t member, int64_t members) {
    return grains / members * member + std::min(grains % members, member);
  }

  KernelFunction kernel;
  int64_t extent, grain;
  size_t numArguments;
  uint64_t scratchPerThread;
};

class CopyOperation : public CpuOperation {
public:
  CopyOperation(CpuQueue &queue, uint64_t bytes) : CpuOperation(queue), bytes(bytes) {}
  Status run(const Address *addresses) override {
    std::memmove(addresses[1], addresses[0], bytes);
    return Status::ok();
  }

private:
  uint64_t bytes;
};

class ZeroOperation : public CpuOperation {
public:
  ZeroOperation(CpuQueue &queue, uint64_t bytes) : CpuOperation(queue), bytes(bytes) {}
  Status run(const Address *addresses) override {
    std::memset(addresses[0], 0, bytes);
    return Status::ok();
  }

private:
  uint64_t bytes;
};

class ConstantOperation : public CpuOperation {
public:
  ConstantOperation(CpuQueue &queue, int64_t value) : CpuOperation(queue), value(value) {}
  Status run(const Address *addresses) override {
    std::memcpy(addresses[0], &value, sizeof(value));
    return Status::ok();
  }

private:
  int64_t value;
};

} // namespace

MadeOperation makeLaunch(CpuQueue &queue, const LaunchSpec &spec, const CodeObject &code) {
  KernelFunction kernel = code.find(spec.kernel);
  if (!kernel)
    return refused("the code object lacks the kernel: " + spec.kernel);
  return made<LaunchOperation>(queue, spec, kernel);
}

MadeOperation makeCopy(CpuQueue &queue, const CopySpec &spec) {
  return made<CopyOperation>(queue, spec.bytes);
}

MadeOperation makeZero(CpuQueue &queue, const ZeroSpec &spec) {
  return made<ZeroOperation>(queue, spec.bytes);
}

MadeOperation makeConstant(CpuQueue &queue, const ConstantSpec &spec) {
  return made<ConstantOperation>(queue, spec.value);
}

} // namespace dtc::rt
