// Makes the instructions of an executor, by kind.
#pragma once

#include "dtc-rt/Executor.h"

namespace dtc::rt {

/// The addresses that a reference stands for.
class Place {
public:
  Place() = default;
  Place(const RankContext &context, const fbs::Ref &ref)
      : base(ref.space() == fbs::Space::Host ? context.hostArena : context.arena), ref(ref) {}
  char *at(const fbs::Call &call) const { return base + offsetOf(ref, call); }

private:
  char *base = nullptr;
  fbs::Ref ref;
};

using MadeInstruction = Result<std::unique_ptr<Instruction>>;

MadeInstruction makeLaunch(const RankContext &context, const fbs::Launch &op);
MadeInstruction makeMatmul(const RankContext &context, const fbs::Matmul &op);
MadeInstruction makeConv(const RankContext &context, const fbs::Conv &op);
MadeInstruction makeCollective(const RankContext &context, const fbs::Collective &op,
                               const char *name);
MadeInstruction makeGroupPosition(const RankContext &context, const fbs::GroupPosition &op);
MadeInstruction makeZero(const RankContext &context, const fbs::Zero &op);
MadeInstruction makeCopy(const RankContext &context, const fbs::Copy &op);

} // namespace dtc::rt
