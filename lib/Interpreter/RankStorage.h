// How the ranks have a tensor: as shards, or as flattened parts of shards (dist.flat).
#pragma once

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Interpreter/Interpreter.h"

namespace dtc::interpreter {

struct RankStorage {
  sharding::TensorSharding sharding; ///< of shards
  sharding::AxisList flatAxes;       ///< over which each is divided, flattened and padded
  bool operator==(const RankStorage &) const = default;

  /// From the attributes of an argument or result; none without a sharding on the mesh.
  static std::optional<RankStorage> of(mlir::DictionaryAttr attributes, const sharding::Mesh &mesh);

  /// What each rank has, of type `local`.
  Tensors divide(const Tensor &tensor, mlir::RankedTensorType local,
                 const sharding::Mesh &mesh) const;
  /// The tensor that the ranks have together; null as `unshard`, and where padding isn't zero.
  std::optional<Tensor> join(const Tensors &parts, const sharding::Mesh &mesh,
                             mlir::RankedTensorType type, double tolerance) const;
  /// Whether a rank's tensor has the shape that it should.
  bool fits(llvm::ArrayRef<int64_t> local, llvm::ArrayRef<int64_t> whole,
            const sharding::Mesh &mesh) const;
};

} // namespace dtc::interpreter
