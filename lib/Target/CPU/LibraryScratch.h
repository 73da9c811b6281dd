// What oneDNN needs for the library ops of a module.
#pragma once

#include "dtc/Target/Target.h"

#include "dtc-cpu/LibraryCalls.h"

#include "mlir/IR/SymbolTable.h"

namespace dtc::cpu {

/// The call that a record of the package stands for.
MatmulCall callOf(const rt::fbs::MatmulT &record);
ConvCall callOf(const rt::fbs::ConvT &record);

/// Whether oneDNN multiplies tensors of a half precision on this processor: bf16 with AVX-512.
/// Others become products of f32.
bool multiplies(mlir::Type half);

/// Refuses contractions and convolutions of element types that oneDNN has no primitive for on this
/// processor, as f64. It names the first op of each. For those of f16 kernels need the processor's
/// conversions (F16C).
mlir::LogicalResult checkLibraryTypes(mlir::ModuleOp module);

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

/// Of library calls as the library says for `threads` threads, of kernels for all
/// threads together. Asks the library once for calls that are alike.
class LibraryScratch : public target::Workspace {
public:
  LibraryScratch(mlir::ModuleOp module, int64_t threads)
      : symbols(module), threads(threads), libraryThreads(threads) {}

  mlir::FailureOr<uint64_t> bytesOf(mlir::Operation *op) override;

private:
  mlir::SymbolTable symbols;
  int64_t threads;
  LibraryThreads libraryThreads;
  llvm::DenseMap<mlir::Attribute, uint64_t> known; ///< by what the library sees of a call
};

} // namespace dtc::cpu
