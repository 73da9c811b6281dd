// The semantic checks behind ProgramView::open.
#pragma once

#include "dtc-rt/Program/ProgramView.h"

#include <array>

namespace dtc::rt {

class ProgramChecker {
public:
  ProgramChecker(const fbs::Program &program, const Manifest &manifest, const RoleInfo &role)
      : program(program), manifest(manifest), role(role) {}

  /// What is wrong, or an empty string.
  std::string run();

private:
  using Text = std::string;
  /// The largest number of each scope that references are used with.
  using Numbers = std::array<uint64_t, static_cast<size_t>(fbs::Scope::MAX) + 1>;
  template <typename T> using Vector = flatbuffers::Vector<T>;

  // ProgramChecker.cpp: the program as a whole, its functions.
  Text checkHeader();
  Text checkMesh();
  Text checkGroups();
  Text checkGroup(const fbs::Group &group) const;
  Text checkPeers();
  Text checkQueues();
  Text checkSchedule();
  Text checkFunctions();
  Text checkFunction(const fbs::Function &function) const;
  Text checkValues(const fbs::Function &function) const;
  Text checkInstruction(const fbs::Function &function, const fbs::Instruction &instruction) const;

  // ProgramOps.cpp: what each kind of instruction does.
  Text checkOp(const fbs::Instruction &instruction) const;
  Text check(const fbs::Launch &op) const;
  Text check(const fbs::Matmul &op) const;
  Text checkEpilogue(const fbs::Matmul &op) const;
  Text checkAddend(const fbs::Matmul &op) const;
  Text check(const fbs::Conv &op) const;
  Text checkAddend(const fbs::Conv &op) const;
  Text check(const fbs::Attention &op) const;
  Text check(const fbs::Collective &op) const;
  Text checkOperand(const fbs::Collective &op, const fbs::CollectiveOperand &operand,
                    int64_t groupSize) const;
  Text checkApart(const fbs::Ref &source, uint64_t sourceBytes, const fbs::Ref &target,
                  uint64_t targetBytes, bool mayBeSame) const;
  Text check(const fbs::Message &op) const;
  Text check(const fbs::GroupPosition &op) const;
  Text checkView(const fbs::Tensor &tensor, bool written) const;

  // ProgramBindings.cpp: what the outside sees of a program.
  Text checkBindings();
  Text checkBinding(const fbs::Binding &binding) const;
  Text checkPlacement(const fbs::Binding &binding) const;
  Text checkWeight(const fbs::Binding &binding, const Dims &shape) const;
  Text checkData(const fbs::Binding &binding, const Dims &shape) const;
  Text checkScalar(const fbs::Binding &binding) const;
  void countBindingUses();

  /// A range of an arena for all numbers that the reference is used with, aligned as asked.
  Text checkRef(const fbs::Ref *ref, uint64_t bytes, uint64_t alignment = 1) const;
  Text checkIndices(const Vector<uint32_t> *indices, size_t count, const char *what) const;
  int64_t groupSize(uint32_t group) const {
    return program.groups()->Get(group)->lists()->Get(0)->ranks()->size();
  }

  const fbs::Program &program;
  const Manifest &manifest;
  const RoleInfo &role;
  RankMesh mesh;
  std::vector<Numbers> called;      ///< by function
  std::vector<Numbers> bindingUses; ///< by binding
  const Numbers *numbers = nullptr; ///< of the function or binding that is being checked
};

} // namespace dtc::rt
