// A step on all ranks of a plan, with or without a pipeline.
//
// Each rank of a pipeline has functions of its own (dtc/Stages/Stages.h). Those of a microbatch are
// called as soon as what they take has been kept or sent, so that no schedule is needed:
//
//   rank 0   forward -> outbox "activation 0 to stage 1", kept          backward -> gradients
//   rank 1               forward -> kept     backward -> gradients, outbox "gradient 0 to stage 0"
//
// What all ranks do together, the update with its sums over stages, is one function (JoinRanks.h).
// Where stages have meshes of their own, each rank's stays a function (ApartRanks.h), and messages
// are delivered rank by rank.
#pragma once

#include "Decompositions.h"
#include "RankStorage.h"
#include "StepValues.h"

#include <set>

namespace dtc::interpreter {

/// What the devices of one rank of a pipeline have of a value.
struct RankShards {
  Tensors shards;
  RankStorage storage;
};
/// Of a gradient a rank has a term for each of its stages that make one, by the role's name.
using Holder = std::pair<int, std::string>;
using ShardsByHolder = std::map<Holder, RankShards>;

class RankStep {
public:
  /// `decompositions` outlive the step, and the copies of it.
  static mlir::FailureOr<RankStep> build(mlir::ModuleOp local, Decompositions &decompositions);

  /// Of a rank of the pipeline.
  const sharding::Mesh &getMesh(int rank) const { return meshes[rank]; }
  int64_t devices() const;

  /// Calls what the ranks do in one microbatch. What none has yet is divided from `wholes`.
  mlir::LogicalResult callPasses(llvm::StringRef wholeName, const Wholes &wholes);
  /// Calls the functions of this name on all ranks that have one.
  mlir::LogicalResult callTogether(llvm::StringRef name, const Wholes &wholes);
  /// Has the ranks hold another gradient: of its terms in a pipeline one is it, the others are
  /// zeros.
  void replaceGradient(const Key &key, const Tensor &whole);
  /// By the last of these calls.
  const std::map<Key, ShardsByHolder> &getReturned() const { return returned; }

private:
  struct Member {
    int rank;
    mlir::func::FuncOp function;
  };

  /// What was given before is no longer divided from whole values.
  void beginCall();
  bool isReady(const Member &member) const;
  mlir::LogicalResult call(const Member &member, const Wholes &wholes);
  /// Appends the arguments of a function to those of every device.
  mlir::LogicalResult take(const Member &member, const Wholes &wholes,
                           std::vector<Tensors> &inputs);
  mlir::FailureOr<RankShards> argument(const Member &member, unsigned index, const Wholes &wholes);
  mlir::FailureOr<RankShards> divided(const Member &member, unsigned index, const Wholes &wholes);
  /// Keeps results from `first` on as those of a function.
  mlir::LogicalResult keep(const Member &member, std::vector<Tensors> &results, size_t first);
  mlir::LogicalResult keepReturned(const Member &member, unsigned index, RankShards value);
  mlir::FailureOr<RankStorage> storageOf(const Member &member,
                                         mlir::DictionaryAttr attributes) const;
  bool areApart(llvm::ArrayRef<Member> members) const;
  /// What all ranks of the world do together, where their meshes differ.
  mlir::LogicalResult callApart(llvm::ArrayRef<Member> members, const Wholes &wholes);
  /// Between stages with meshes of their own: each sender's piece to the ranks that get it, and
  /// those that a rank waits for.
  void deliver(int rank, mlir::DictionaryAttr attributes, const Tensors &shards);
  std::optional<Tensors> delivered(const Member &member, unsigned index) const;

  Decompositions *decompositions = nullptr;
  llvm::SmallVector<mlir::ModuleOp> modules; ///< by rank of the pipeline
  std::vector<sharding::Mesh> meshes;        ///< of each
  std::vector<std::vector<int64_t>> worlds;  ///< of each: world ranks by position; or none
  std::map<Key, ShardsByHolder> held, returned;
  std::set<Key> computed;                                 ///< by earlier calls
  /// In this microbatch, by rank and name. It is empty between calls, as messages are.
  std::map<std::pair<int, std::string>, RankShards> kept;
  std::map<std::string, RankShards> messages;
  /// By name, sender and receiver in the world: in the order in which they are sent.
  std::map<std::tuple<std::string, int64_t, int64_t>, Tensors> pieces;
};

} // namespace dtc::interpreter
