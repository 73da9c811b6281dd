// Library ops of the IR as the calls that the runtime makes.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "dtc-rt/LibraryCalls.h"

namespace dtc::schedule {

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

/// Bytes of scratch memory that an op needs beside operands and results: a
/// library call's, as the library says for the current number of threads, or a
/// kernel's for all threads together. Refuses calls that the library can't make.
mlir::FailureOr<uint64_t> scratchBytesOf(mlir::Operation *op, mlir::SymbolTable &symbols,
                                         int64_t threads);

} // namespace dtc::schedule
