// A role's program (Program.fbs), verified so that executing it cannot reach
// outside the arena, whatever the bytes are.
//
// `open` checks once, at load: the FlatBuffer's structure, and every reference, view and operand
// against the arena for all calls of the schedule. Every index is checked (kernels, functions,
// groups, peers, queues, tokens, values, bindings), and so are shapes and types of library calls
// and collectives. Groups must be lists of the world's ranks. Bindings must be the parts of the
// manifest's tensors that their placements say. Nothing after it checks again. (What a kernel does
// with its arguments is machine code, and as trusted as the artifact is.)
#pragma once

#include "dtc-rt/Program/CallNumbers.h"
#include "dtc-rt/Program/Manifest.h"
#include "dtc-rt/Program/RankMesh.h"

namespace dtc::rt {

class ProgramView {
public:
  /// The program of a role of the manifest; `bytes` must outlive the view.
  static Result<ProgramView> open(std::span<const char> bytes, const Manifest &manifest,
                                  size_t role = 0);

  /// The bindings of some kinds, in the program's order.
  std::vector<const fbs::Binding *> bindings(std::initializer_list<fbs::BindingKind> kinds) const;
  /// The first binding of a kind; null where there is none.
  const fbs::Binding *binding(fbs::BindingKind kind) const;

  const fbs::Program &operator*() const { return *program; }
  const fbs::Program *operator->() const { return program; }

private:
  const fbs::Program *program = nullptr;
};

inline DType dtypeOf(fbs::DType dtype) { return static_cast<DType>(dtype); }
Dims dimsOf(const flatbuffers::Vector<int64_t> *values);

RankMesh meshOf(const fbs::Program &program);
Placement placementOf(const fbs::Binding &binding);

} // namespace dtc::rt
