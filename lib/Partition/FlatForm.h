// A tensor as ZeRO stores it: flattened, padded, and divided over a group of ranks.
//
// A rank's shard of 3x5 elements that two ranks along dp share out:
//
//   whole  tensor<3x5xf32>  -reshape->  tensor<15xf32>  -pad->  tensor<16xf32>
//   part   tensor<8xf32>                rank 0 has elements 0 to 7, rank 1 8 to 14 and a zero
//
// Parts of more than kFineElements are a multiple of kPartElements, so that they are summed in
// rows. Zeros stay zeros in an update, and count nothing in a sum of squares.
#pragma once

#include "Reshard.h"

namespace dtc::partition {

class FlatForm {
public:
  static constexpr int64_t kFineElements = 4096, kPartElements = 64;

  /// `shard`: the type of a rank's shard under `sharding`. None of `axes` splits it. `block`: with
  /// which part of the model it is gathered and scattered.
  FlatForm(mlir::RankedTensorType shard, dist::ShardingAttr sharding, sharding::AxisList axes,
           int64_t block, const NamedMesh &mesh);

  mlir::ArrayRef<int64_t> shardShape() const { return shard; }
  const sharding::AxisList &getAxes() const { return axes; }
  mlir::RankedTensorType partType(mlir::Type element) const;
  /// The sharding of all parts one after another, and how they make up the tensor.
  dist::ShardingAttr partSharding(const sharding::AxisList &pending) const;
  dist::FlatAttr description() const;

  /// The rank's part of what all ranks of the group have.
  mlir::Value cut(mlir::OpBuilder &builder, mlir::Value whole) const;
  /// The rank's part of the sum over `pending`; takes away those axes that it is summed over.
  mlir::Value scatter(mlir::OpBuilder &builder, mlir::Value whole,
                      sharding::AxisList &pending) const;
  mlir::Value gather(mlir::OpBuilder &builder, mlir::Value part) const;
  /// The sum of all elements of a part.
  mlir::Value sum(mlir::OpBuilder &builder, mlir::Value part) const;

  mlir::Value allReduce(mlir::OpBuilder &builder, mlir::Value value,
                        const sharding::AxisList &over) const;

private:
  mlir::Value flatten(mlir::OpBuilder &builder, mlir::Value whole) const;
  /// The result of a collective, which may become one call with others of the block.
  mlir::Value inBlock(mlir::Operation *collective) const;
  dist::AxesAttr toAttr(const sharding::AxisList &list) const;

  llvm::SmallVector<int64_t> shard;
  dist::ShardingAttr sharding;
  sharding::AxisList axes;
  const NamedMesh &mesh;
  int64_t block, elements, partElements, ranks;
};

/// How the parameters of a module are stored, by name: the axes of dist.storage.
struct ParameterAxes {
  sharding::AxisList parameter, gradient, state;
  sharding::AxisList update; ///< over which a new parameter is computed
  int64_t block = 0;
  /// Over which its update is divided.
  const sharding::AxisList &ofUpdate() const {
    for (const sharding::AxisList *list : {&update, &state, &gradient})
      if (!list->empty())
        return *list;
    return parameter;
  }
};
using StorageTable = llvm::StringMap<ParameterAxes>;

/// A function of which arguments and results become parts.
class StoredFunction {
public:
  StoredFunction(mlir::func::FuncOp func, const StorageTable &table, const NamedMesh &mesh);

  mlir::func::FuncOp getFunction() const { return func; }
  /// The form in which what the role names is stored; null: whole.
  const FlatForm *storedAs(graph::RoleAttr role) const;
  /// The form in which a parameter's update is divided; null: it isn't.
  const FlatForm *updatedAs(llvm::StringRef name) const;

  sharding::AxisList axesOf(dist::AxesAttr attr) const { return *dist::toAxes(attr, mesh.mesh); }
  /// The axes over which a gradient pends.
  sharding::AxisList pendingOf(mlir::Attribute sharding) const;
  void setArgument(unsigned index, const FlatForm &form, const sharding::AxisList &pending);
  void setResult(unsigned index, const FlatForm &form, const sharding::AxisList &pending);
  /// Writes the signature. What was said about storage is carried out.
  void finish();

private:
  void addForm(graph::RoleAttr role, mlir::Type type, mlir::Attribute sharding,
               const StorageTable &table);

  mlir::func::FuncOp func;
  const NamedMesh &mesh;
  const StorageTable &table;
  llvm::StringMap<FlatForm> forms; ///< of a parameter and all that is stored with it
  llvm::SmallVector<mlir::NamedAttrList> arguments, results;
};

/// Gathers parameters before each pass that reads them, and scatters gradients.
mlir::LogicalResult rewriteStoredPasses(StoredFunction &stored);
/// Scatters gradients, updates the rank's parts, and gathers parameters.
mlir::LogicalResult rewriteStoredUpdate(StoredFunction &stored);

} // namespace dtc::partition
