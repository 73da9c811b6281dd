// What ops are on shards, worked out once for all that are alike.
//
// The layers of a deep model repeat the same ops with other operands. Of
//
//     %4 = dtc.contract %2 [0, 2], %w0 [1, 2] -> [0, 1] {dist.op = #s} : tensor<8x64xf32>, ...
//     %9 = dtc.contract %7 [0, 2], %w1 [1, 2] -> [0, 1] {dist.op = #s} : tensor<8x64xf32>, ...
//
// the second has the first one's class: its rule, its checked choice, and the form that follows
// from it. The form is the shardings of operands and results, and the results' local types.
#pragma once

#include "Reshard.h"

#include "dtc/Dialect/Graph/AlikeOps.h"
#include "dtc/Interfaces/Interfaces.h"
#include "dtc/Sharding/Ring.h"

#include <memory>
#include <optional>
#include <set>

namespace dtc::partition {

/// Keeps one of each sharding, so that values share it.
class ShardingPool {
public:
  const sharding::TensorSharding *keep(const sharding::TensorSharding &sharding) {
    return &*pool.insert(sharding).first;
  }

private:
  struct Less {
    bool operator()(const sharding::TensorSharding &a, const sharding::TensorSharding &b) const {
      return std::tie(a.dims, a.partial) < std::tie(b.dims, b.partial);
    }
  };
  std::set<sharding::TensorSharding, Less> pool;
};

/// An op under one choice.
struct OpForm {
  sharding::OpSharding choice;
  bool rounds = false; ///< a rounds factor is split, and no tensors go round
  std::optional<sharding::Ring> ring;
  llvm::SmallVector<const sharding::TensorSharding *, 4> operands, results;
  llvm::SmallVector<mlir::Type, 2> types; ///< of the results, local
};

/// Ops of one name, with equal attributes but for those that number them, and equal types.
struct OpClass {
  sharding::ShardingRule rule;
  std::optional<sharding::OpSharding> given; ///< by dist.op, found to fit the rule
  std::vector<std::unique_ptr<OpForm>> forms;

  /// A choice that followed the operands.
  struct Followed {
    llvm::SmallVector<const sharding::TensorSharding *, 4> operands;
    bool allowRounds;
    const OpForm *form;
  };
  std::vector<Followed> followed;
};

class OpForms {
public:
  OpForms(const NamedMesh &mesh, ShardingPool &pool) : mesh(mesh), pool(pool) {}

  /// The class of an op that has a rule. Reports a dist.op that doesn't fit it. The op has to
  /// stay as long as this does.
  mlir::FailureOr<OpClass *> classOf(mlir::Operation *op);
  /// The form of an op of that class under `choice`.
  const OpForm &formOf(OpClass &alike, mlir::Operation *op, const sharding::OpSharding &choice);

private:
  struct Alike : graph::AlikeOps {
    static unsigned getHashValue(mlir::Operation *op);
    static bool isEqual(mlir::Operation *a, mlir::Operation *b);
  };

  const NamedMesh &mesh;
  ShardingPool &pool;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<OpClass>, Alike> classes;
};

/// Drops the axes of size 1, which mean nothing.
void dropTrivialAxes(sharding::AxisList &axes, const sharding::Mesh &mesh);
void dropTrivialAxes(sharding::TensorSharding &sharding, const sharding::Mesh &mesh);

} // namespace dtc::partition
