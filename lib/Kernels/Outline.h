// From clusters to kernels.
#pragma once

#include "Clusters.h"
#include "TotalBatches.h"
#include "UpdateBatches.h"

#include "dtc/Kernels/KernelFormation.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace dtc::kernels {

class SpentSlots;

/// Brings a flat kernel to one dimension, so that tensors of all shapes share it.
void flatten(exec::KernelOp kernel);

/// Makes kernels of clusters, one for all clusters that compute the same. Functions may be of
/// several modules, the programs of roles: each has a copy of the kernels that it launches.
class Outliner {
public:
  Outliner(const target::Target &target, KernelFormation::Formed formed);

  /// Replaces the primitive ops and whole updates of `func` by launches.
  mlir::LogicalResult outline(mlir::func::FuncOp func);

  /// Replaces the totals of many tensors by launches that do several at a time, where the target
  /// has such kernels. Layers needn't be decomposed yet; reductions of tensors may not be either.
  mlir::LogicalResult outlineTotals(mlir::func::FuncOp func);

private:
  struct Known {
    exec::KernelOp kernel;
    llvm::SmallVector<int64_t> inPlace;
  };
  /// What a cluster is launched as.
  struct Launch {
    const Known *kernel = nullptr;
    int64_t extent = 0;
  };

  struct Alone {
    mlir::OwningOpRef<mlir::func::FuncOp> function; ///< what an update does, in primitive ops
    std::string piece; ///< what a kernel that does several would do of it (pieceOf)
    mlir::OwningOpRef<mlir::func::FuncOp> outlined; ///< the same as launches; null until needed
    llvm::SmallVector<exec::KernelOp> kernels;      ///< that these launch
  };
  mlir::FailureOr<Alone *> aloneOf(const Update &update, llvm::ArrayRef<int64_t> replaces);
  mlir::LogicalResult outlineAlone(Alone &alone);
  mlir::LogicalResult outlineUpdates(mlir::func::FuncOp func);
  /// What one kernel that does several pieces would do of an update alone; empty: it has its own.
  std::string pieceOf(mlir::func::FuncOp alone);
  mlir::LogicalResult launchTogether(llvm::ArrayRef<UpdatePiece> pieces);
  /// One that does several pieces and has no ops yet. The builder is put into it.
  static exec::KernelOp kernelOfPieces(mlir::OpBuilder &builder, mlir::Location loc,
                                       mlir::ValueRange inputs, size_t pieces);
  /// Totals of a tensor, and what a kernel for it alone would compute before it adds up.
  struct TotalsPiece {
    const Totals *totals;
    mlir::OwningOpRef<exec::KernelOp> alone;
    int64_t elements;
  };
  mlir::LogicalResult launchTotals(llvm::ArrayRef<const TotalsPiece *> pieces);
  mlir::FailureOr<Launch> joinTotals(llvm::ArrayRef<const TotalsPiece *> pieces,
                                     llvm::ArrayRef<mlir::Value> inputs);
  mlir::LogicalResult outlinePrimitives(mlir::func::FuncOp func);
  mlir::LogicalResult launch(const Clustering &clustering, const SpentSlots &slots, int cluster,
                             mlir::OpBuilder &builder);
  /// A kernel without name for the cluster, not in the module yet.
  exec::KernelOp build(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Value> inputs,
                       llvm::ArrayRef<mlir::Value> outputs, mlir::Location loc);
  /// Gives a planned kernel its name and a place in the module.
  mlir::FailureOr<Launch> findOrAdd(exec::KernelOp kernel);
  /// The kernel that a launch names, of which the module gets a copy where it has none yet.
  exec::KernelOp inModule(exec::KernelOp kernel);

  /// Makes the module of a function the one that kernels are put into.
  void enter(mlir::ModuleOp next);
  void insert(exec::KernelOp kernel);

  mlir::ModuleOp module; ///< of the function that is outlined
  const target::Target &target;
  KernelFormation::Formed formed;
  std::optional<mlir::SymbolTable> symbols; ///< of that module
  llvm::StringMap<Known> known; ///< by what they compute
  /// The same by the clusters' own ops: layer after layer is found without
  /// building its kernels first.
  std::map<std::vector<uintptr_t>, Launch> launches;
  std::map<std::vector<uintptr_t>, Alone> updates; ///< by their own ops, too
  std::map<KernelKind, unsigned> numbers; ///< of kernels
};

} // namespace dtc::kernels
