// Launches of kernels, and the small things: group_position, zero, copy.
#include "Instructions.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt {
namespace {

class LaunchInstruction : public Instruction {
public:
  LaunchInstruction(const RankContext &context, const fbs::Launch &op, KernelFunction kernel)
      : team(context.team), kernel(kernel), extent(static_cast<int64_t>(op.extent())),
        grain(static_cast<int64_t>(std::max<uint64_t>(op.grain(), 1))),
        scratchPerThread(op.scratch_per_thread()) {
    for (const fbs::Ref *ref : *op.args())
      places.emplace_back(context, *ref);
    addresses.resize(places.size());
    if (op.scratch())
      scratch = Place(context, *op.scratch());
  }

  Status run(const fbs::Call &call) override {
    for (size_t i = 0; i < places.size(); ++i)
      addresses[i] = places[i].at(call);
    char *memory = scratchPerThread ? scratch.at(call) : nullptr;
    // Members take ranges of whole grains, the same ones every time.
    int64_t grains = extent / grain + (extent % grain != 0);
    int64_t members = std::clamp<int64_t>(grains, 1, team.size());
    team.run(static_cast<int>(members), [&](int member) {
      int64_t begin = std::min(share(grains, member, members) * grain, extent);
      int64_t end = std::min(share(grains, member + 1, members) * grain, extent);
      if (begin < end)
        kernel(addresses.data(), begin, end, memory + member * scratchPerThread);
    });
    return Status::ok();
  }

private:
  /// Grains that the members before `member` take.
  static int64_t share(int64_t grains, int64_t member, int64_t members) {
    return grains / members * member + std::min(grains % members, member);
  }

  ThreadTeam &team;
  KernelFunction kernel;
  std::vector<Place> places;
  std::vector<char *> addresses;
  int64_t extent, grain;
  Place scratch;
  uint64_t scratchPerThread;
};

class GroupPositionInstruction : public Instruction {
public:
  GroupPositionInstruction(Place target, int64_t position) : target(target), position(position) {}
  Status run(const fbs::Call &call) override {
    std::memcpy(target.at(call), &position, sizeof(position));
    return Status::ok();
  }

private:
  Place target;
  int64_t position;
};

class ZeroInstruction : public Instruction {
public:
  ZeroInstruction(Place target, uint64_t bytes) : target(target), bytes(bytes) {}
  Status run(const fbs::Call &call) override {
    std::memset(target.at(call), 0, bytes);
    return Status::ok();
  }

private:
  Place target;
  uint64_t bytes;
};

class CopyInstruction : public Instruction {
public:
  CopyInstruction(Place source, Place target, uint64_t bytes)
      : source(source), target(target), bytes(bytes) {}
  Status run(const fbs::Call &call) override {
    std::memmove(target.at(call), source.at(call), bytes);
    return Status::ok();
  }

private:
  Place source, target;
  uint64_t bytes;
};

template <typename T, typename... Args> MadeInstruction made(Args &&...args) {
  return std::unique_ptr<Instruction>(std::make_unique<T>(std::forward<Args>(args)...));
}

} // namespace

MadeInstruction makeLaunch(const RankContext &context, const fbs::Launch &op) {
  std::string symbol = context.program->kernels()->Get(op.kernel())->str();
  KernelFunction kernel = context.code.find(symbol);
  if (!kernel)
    return refused("the code object lacks the kernel: " + symbol);
  return made<LaunchInstruction>(context, op, kernel);
}

MadeInstruction makeGroupPosition(const RankContext &context, const fbs::GroupPosition &op) {
  return made<GroupPositionInstruction>(Place(context, *op.target()),
                                        context.groups[op.group()].position);
}

MadeInstruction makeZero(const RankContext &context, const fbs::Zero &op) {
  return made<ZeroInstruction>(Place(context, *op.target()), op.bytes());
}

MadeInstruction makeCopy(const RankContext &context, const fbs::Copy &op) {
  return made<CopyInstruction>(Place(context, *op.source()), Place(context, *op.target()),
                               op.bytes());
}

} // namespace dtc::rt
