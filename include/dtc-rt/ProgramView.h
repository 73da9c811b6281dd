// A role's program (Program.fbs), verified so that executing it cannot reach
// outside the arena, whatever the bytes are.
//
// `open` checks once, at load: the FlatBuffer's structure; every reference,
// view and collective operand against arena_bytes for all slots and
// microbatches of the schedule; kernel and function indices; shapes, types and
// axes of library calls and collectives; that the bindings are shards of the
// manifest's tensors. Nothing after it checks again. (What a kernel does with
// its arguments is machine code, and as trusted as the artifact is.)
#pragma once

#include "dtc-rt/Manifest.h"
#include "dtc-rt/Program_generated.h"

namespace dtc::rt {

class ProgramView {
public:
  /// `bytes` must outlive the view.
  static Result<ProgramView> open(std::span<const char> bytes, const Manifest &manifest);

  const fbs::Program &operator*() const { return *program; }
  const fbs::Program *operator->() const { return program; }

private:
  const fbs::Program *program = nullptr;
};

inline DType dtypeOf(fbs::DType dtype) { return static_cast<DType>(dtype); }
Dims dimsOf(const flatbuffers::Vector<int64_t> *values);

/// The address of a reference: its offset in the arena for a call.
inline uint64_t offsetOf(const fbs::Ref &ref, uint64_t slotStride, const fbs::Call &call) {
  switch (ref.per()) {
  case fbs::Per::Slot:
    return ref.offset() + call.slot() * slotStride;
  case fbs::Per::Microbatch:
    return ref.offset() + call.microbatch() * ref.stride();
  default:
    return ref.offset();
  }
}

} // namespace dtc::rt
