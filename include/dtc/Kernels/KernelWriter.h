// What the writers of kernels' bodies share: as loops on a processor, and as threads of a GPU.
#pragma once

#include "dtc/Kernels/ItemLoops.h"

#include <map>

namespace dtc::kernels {

/// How operands are read and results written, from which a target knows which buffers may be
/// shared. Phases are numbered: 0 is before any element is written.
struct Accesses {
  struct Reads {
    bool onlyWrittenElement = true; ///< only the element that is written then
    bool onlyThisRow = true;        ///< only the row that is being computed
  };
  std::map<unsigned, std::map<int, Reads>> reads; ///< by operand and phase
  std::map<unsigned, int> writtenIn;              ///< by result: the first phase
};

class KernelWriter : protected ElementHost, protected ItemHost {
public:
  Accesses accesses;

protected:
  using Values = ItemHost::Values;

  KernelWriter(const BodyInfo &info, mlir::OpBuilder &builder);

  /// A loop whose body is a scope; it gets the variable and the accumulators.
  Values loop(mlir::Value low, mlir::Value high, int64_t step, Range range,
              mlir::ValueRange initial,
              llvm::function_ref<Values(mlir::AffineExpr, mlir::ValueRange)> body);
  mlir::Value address(mlir::Value base, mlir::AffineExpr offset, mlir::Type element);
  /// Notes a read of an operand that has so many `rows`.
  void noteRead(unsigned argument, mlir::AffineExpr offset, int64_t rows);
  void noteWrite(unsigned result) { accesses.writtenIn.try_emplace(result, phase); }

  const BodyInfo &info;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  ElementEvaluator evaluator;
  IndexMath &math;
  llvm::SmallVector<mlir::Value> arguments; ///< pointers: operands, then results
  int phase = 0;
  mlir::AffineExpr writtenElement; ///< which is written now; null outside
  mlir::AffineExpr rowVariable;    ///< of the row that is being computed; null outside
};

} // namespace dtc::kernels
