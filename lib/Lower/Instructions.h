// Ops of a step function as instructions of a program.
#pragma once

#include "Homes.h"
#include "RankGroups.h"

#include "dtc-rt/Program_generated.h"

#include "llvm/ADT/DenseMap.h"

namespace dtc::lower {

/// What launches say of a kernel.
struct ProgramKernel {
  uint32_t index = 0; ///< in the program's list
  uint64_t scratchBytes = 0;
};

/// Translates one function. Addresses come from exec.offsets; those within the
/// home of data that each microbatch has its own of move with the microbatch.
/// What instructions read and write is said by value: a reshape is its operand.
class FunctionTranslator {
public:
  FunctionTranslator(mlir::func::FuncOp function, const HomeTable &homes,
                     const sharding::Mesh &mesh, RankGroups &groups,
                     const llvm::StringMap<ProgramKernel> &kernels);

  /// Null after an error, for which there is a diagnostic.
  std::unique_ptr<rt::fbs::FunctionT> translate();

private:
  mlir::LogicalResult translateOp(mlir::Operation *op);
  mlir::LogicalResult translateLaunch(exec::LaunchOp op);
  mlir::LogicalResult translateMatmul(exec::MatmulOp op);
  mlir::LogicalResult translateConv(mlir::Operation *op);
  mlir::LogicalResult translateCollective(mlir::Operation *op);
  mlir::LogicalResult translateAxisIndex(dist::AxisIndexOp op);

  mlir::LogicalResult enterArguments();
  void enterResults();
  void enterValue(mlir::Value value, uint64_t offset);
  std::vector<uint32_t> valuesOf(mlir::ValueRange range) const;
  mlir::FailureOr<uint32_t> groupOf(mlir::Operation *op, dist::AxesAttr axes);
  rt::fbs::Ref refAt(uint64_t offset) const;
  rt::fbs::Ref refOf(mlir::Value value) const { return refAt(offsets.at(value)); }
  template <typename T> void append(mlir::Operation *op, T instruction);

  mlir::func::FuncOp function;
  const HomeTable &homes;
  const sharding::Mesh &mesh;
  RankGroups &groups;
  const llvm::StringMap<ProgramKernel> &kernels;
  llvm::DenseMap<mlir::Value, uint64_t> offsets;
  llvm::DenseMap<mlir::Value, uint32_t> values; ///< indices into the function's
  llvm::SmallVector<const Home *> perMicrobatch; ///< what each microbatch has its own of
  std::unique_ptr<rt::fbs::FunctionT> result;
};

} // namespace dtc::lower
