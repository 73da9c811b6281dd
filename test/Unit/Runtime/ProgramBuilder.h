// Programs of several functions, queues and tokens, made by hand.
#pragma once

#include "TestArtifact.h"

namespace dtc::rt::test {

/// What an instruction has beside its operation.
struct Issue {
  uint32_t queue = 0;
  std::vector<uint32_t> waits = {}, signals = {};
};

/// One operand of floats.
inline fbs::CollectiveT floatCollective(fbs::CollectiveKind kind, uint32_t group, fbs::Ref source,
                                        fbs::Ref target, Dims shape, int dim) {
  fbs::CollectiveT op;
  op.kind = kind;
  op.group = group;
  op.dtype = fbs::DType::F32;
  op.dim = dim;
  auto operand = std::make_unique<fbs::CollectiveOperandT>();
  operand->source = std::make_unique<fbs::Ref>(source);
  operand->target = std::make_unique<fbs::Ref>(target);
  operand->shape = std::move(shape);
  op.operands.push_back(std::move(operand));
  return op;
}

/// Adds to the function that was begun last.
class ProgramBuilder {
public:
  /// A program on a mesh of one axis, with no function, no call and no group.
  ProgramBuilder(int ranks, uint64_t arenaBytes) {
    program = emptyProgram(emptyManifest(), arenaBytes);
    program.mesh_axes.push_back(std::make_unique<fbs::MeshAxisT>());
    program.mesh_axes[0]->name = program.mesh_axes[0]->degree = "dp";
    program.mesh_axes[0]->size = ranks;
    program.functions.clear();
    program.schedule.clear();
    program.groups.clear();
  }

  uint32_t queue(const std::string &name, fbs::QueueKind kind) {
    program.queues.push_back(std::make_unique<fbs::QueueT>());
    program.queues.back()->name = name;
    program.queues.back()->kind = kind;
    return static_cast<uint32_t>(program.queues.size() - 1);
  }
  uint32_t token(fbs::Scope scope) {
    program.tokens.push_back(scope);
    return static_cast<uint32_t>(program.tokens.size() - 1);
  }
  uint32_t peers(std::vector<int> ranks) {
    program.peers.push_back(std::make_unique<fbs::RankListT>());
    program.peers.back()->ranks = std::move(ranks);
    return static_cast<uint32_t>(program.peers.size() - 1);
  }
  uint32_t group(const std::vector<std::vector<int>> &lists) {
    program.groups.push_back(groupOf(lists));
    return static_cast<uint32_t>(program.groups.size() - 1);
  }
  uint32_t kernel(const std::string &name) {
    program.kernels.push_back(name);
    return static_cast<uint32_t>(program.kernels.size() - 1);
  }
  uint32_t function(const std::string &name) {
    program.functions.push_back(std::make_unique<fbs::FunctionT>());
    program.functions.back()->name = name;
    return static_cast<uint32_t>(program.functions.size() - 1);
  }

  template <typename Op>
  void add(Op op, const Issue &issue = {}, const std::string &name = "op") {
    auto instruction = std::make_unique<fbs::InstructionT>();
    instruction->name = name;
    instruction->queue = static_cast<uint8_t>(issue.queue);
    instruction->waits = issue.waits;
    instruction->signals = issue.signals;
    instruction->op.Set(std::move(op));
    program.functions.back()->instructions.push_back(std::move(instruction));
  }
  void launch(uint32_t kernel, std::vector<fbs::Ref> args, uint64_t extent,
              const Issue &issue = {}) {
    fbs::LaunchT op;
    op.kernel = kernel;
    op.args = std::move(args);
    op.extent = extent;
    op.grain = 1;
    add(std::move(op), issue);
  }
  void copy(fbs::Ref source, fbs::Ref target, uint64_t bytes, const Issue &issue = {}) {
    fbs::CopyT op;
    op.source = std::make_unique<fbs::Ref>(source);
    op.target = std::make_unique<fbs::Ref>(target);
    op.bytes = bytes;
    add(std::move(op), issue);
  }
  void message(fbs::MessageKind kind, uint32_t peers, fbs::Ref ref, uint64_t bytes,
               const Issue &issue, const std::string &name, uint32_t channel = 0) {
    fbs::MessageT op;
    op.kind = kind;
    op.peers = peers;
    op.channel = channel;
    op.buffers = {fbs::MessageBuffer(ref, bytes)};
    add(std::move(op), issue, name);
  }
  /// One operand of floats.
  void collective(fbs::CollectiveKind kind, uint32_t group, fbs::Ref source, fbs::Ref target,
                  Dims shape, int dim, const Issue &issue = {}) {
    add(floatCollective(kind, group, source, target, std::move(shape), dim), issue);
  }
  void call(uint32_t function, uint32_t microbatch = 0, uint32_t slot = 0, uint32_t inbox = 0,
            uint32_t outbox = 0) {
    program.schedule.push_back(fbs::Call(function, microbatch, slot, inbox, outbox));
  }

  fbs::ProgramT program;
};

/// A manifest of roles with these ranks, of which all have a mesh of one axis.
inline Json manifestOfRoles(const std::vector<std::vector<int>> &roles) {
  Json manifest = emptyManifest();
  manifest["roles"] = Json::array();
  size_t ranks = 0;
  for (size_t role = 0; role < roles.size(); ++role) {
    manifest["roles"].push_back({{"program", "program/" + std::to_string(role) + ".bin"},
                                 {"ranks", roles[role]}});
    ranks += roles[role].size();
  }
  manifest["world_size"] = ranks;
  return manifest;
}

} // namespace dtc::rt::test
