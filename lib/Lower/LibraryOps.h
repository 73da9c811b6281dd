// Library ops of the IR as the calls that the runtime makes.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "dtc-rt/LibraryCalls.h"

namespace dtc::lower {

/// The element type in the package; none for types that no tensor may have there.
std::optional<rt::fbs::DType> dtypeOf(mlir::Type elementType);

/// The call of an exec.matmul, dtc.conv, dtc.conv_input_grad or dtc.conv_weight_grad.
rt::MatmulCall matmulCall(exec::MatmulOp op);
rt::ConvCall convCall(mlir::Operation *op);

bool isConv(mlir::Operation *op);

/// Sets the number of threads of library calls that this thread makes or
/// describes, for as long as it lives.
class LibraryThreads {
public:
  explicit LibraryThreads(int64_t threads);
  ~LibraryThreads();
  LibraryThreads(const LibraryThreads &) = delete;

private:
  int before;
};

/// Bytes of scratch memory that ops need beside operands and results: library
/// calls, as the library says for `threads` threads, and kernels for all
/// threads together. Asks the library once for calls that are alike.
class ScratchSizes {
public:
  ScratchSizes(mlir::ModuleOp module, int64_t threads)
      : symbols(module), threads(threads), libraryThreads(threads) {}

  /// Refuses calls that the library can't make.
  mlir::FailureOr<uint64_t> bytesOf(mlir::Operation *op);

private:
  mlir::SymbolTable symbols;
  int64_t threads;
  LibraryThreads libraryThreads;
  llvm::DenseMap<mlir::Attribute, uint64_t> known; ///< by what the library sees of a call
};

} // namespace dtc::lower
