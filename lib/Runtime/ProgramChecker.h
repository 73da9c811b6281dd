// The semantic checks behind ProgramView::open.
#pragma once

#include "dtc-rt/ProgramView.h"

namespace dtc::rt {

class ProgramChecker {
public:
  ProgramChecker(const fbs::Program &program, const Manifest &manifest)
      : program(program), manifest(manifest) {}

  /// What is wrong, or an empty string.
  std::string run();

private:
  using Text = std::string;

  Text checkHeader();
  Text checkSchedule();
  Text checkFunctions();
  Text checkInstruction(const fbs::Instruction &instruction);
  Text checkBindings();

  Text check(const fbs::Launch &op);
  Text check(const fbs::Matmul &op);
  Text check(const fbs::Conv &op);
  Text check(const fbs::Collective &op);
  Text checkOperand(const fbs::Collective &op, const fbs::CollectiveOperand &operand,
                    int64_t groupSize);
  Text check(const fbs::AxisIndex &op);

  /// A range of the arena for every slot and microbatch, aligned as asked.
  Text checkRef(const fbs::Ref *ref, uint64_t bytes, uint64_t alignment = 1) const;
  Text checkView(const fbs::Tensor &tensor, bool written) const;
  Text checkAxes(const flatbuffers::Vector<int32_t> *axes) const;
  Text checkShard(const fbs::Binding &binding, const Dims &shape, const Sharding &sharding) const;
  int64_t groupSize(const flatbuffers::Vector<int32_t> &axes) const;

  const fbs::Program &program;
  const Manifest &manifest;
  uint64_t maxSlot = 0;
};

} // namespace dtc::rt
