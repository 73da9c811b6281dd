// What the compiler has to know of the machine that it compiles for.
//
// A target is one object. Forming kernels (Kernels), placing buffers (Lower) and the driver ask
// it, and know nothing else of the machine:
//
//     decompose layers      staysWhole: which ops a library computes as they are
//     normalize products    matmulLimits: which strided products a library takes
//     form kernels          kernelLimits, planKernel: how large they may be, how they are launched
//     plan memory           workspace: what library calls need beside operands and results
//     compile kernels       kernelCompilation: kernels to code, while others are formed
//     package               name, processor: what the artifact runs on
//
// A new target is a folder beside CPU and a line in Targets.cpp.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Sharding/AttentionWorkspace.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace dtc::target {

struct KernelLimits {
  size_t ops = 0; ///< most ops in a kernel
  /// Whether a kernel that does the same to every element serves tensors of any size.
  bool anyExtent = true;
  /// Sums over the rows of fewer columns are made in two passes, as the first one's slices of rows
  /// keep more of the device busy. 0: in one.
  int64_t fewColumns = 0;
  /// Most tensors that one kernel updates (the pieces of exec.kernel), and most operands and
  /// results that it may have for it.
  int64_t pieces = 1, operands = 0;
  /// Whether indices of rows that are added up are sorted before, where that moves fewer bytes
  /// (sharding::bucketsOf).
  bool bucketsIndices = false;
};

struct MatmulLimits {
  size_t rank = 0; ///< most dimensions of a product, its two of a matrix included
  /// Whether products add biases, apply GELU by way of tanh and its gradient, and sum operands up.
  bool epilogues = false;
  /// Whether a product may be added to what accumulates such products.
  bool accumulates = false;
};

/// How a kernel is launched.
struct KernelShape {
  int64_t extent = 1;       ///< independent iterations, which a launch divides among workers
  int64_t scratchBytes = 0; ///< of each worker
  /// For each result, an operand whose buffer it may overwrite, or -1.
  llvm::SmallVector<int64_t> inPlace;
  exec::GeometryAttr geometry = {}; ///< null where no GPU runs it
};

/// Bytes of memory that the ops of a module need beside operands and results.
class Workspace {
public:
  virtual ~Workspace() = default;
  /// Fails with a diagnostic for a call that the target's libraries can't make.
  virtual mlir::FailureOr<uint64_t> bytesOf(mlir::Operation *op) = 0;
};

/// A file that the runtime's device loads: "kernels.so", "sm_90/rows_0.cubin".
struct CodeFile {
  std::string name;
  std::vector<char> bytes;
};

struct CodeObject {
  std::vector<CodeFile> files;
  std::vector<std::string> symbols;  ///< its kernels
  std::vector<std::string> features; ///< what it needs of the processor
  std::string warning;               ///< what the user should know of it; may be empty
};

struct CodeOptions {
  /// Of which code is made ahead; none: the target's choice.
  std::vector<std::string> architectures;
};

/// Kernels that threads compile while the caller goes on with something else:
///
///     auto kernels = target.kernelCompilation(context, options);
///     ... kernels->add(kernel), as they are formed ...
///     kernels->close();
///     ... plan the memory of what launches them ...
///     llvm::Expected<CodeObject> code = kernels->finish();
///
/// All that has to do with MLIR is done when `close` returns.
class KernelCompilation {
public:
  /// Gives up what isn't compiled yet.
  virtual ~KernelCompilation() = default;

  /// The kernel stays as it is, and must until `close`. Fails with a diagnostic at the op that
  /// cannot be compiled.
  virtual mlir::LogicalResult add(exec::KernelOp kernel) = 0;
  /// There are no further ones.
  virtual mlir::LogicalResult close() = 0;
  /// Helps, waits and links; to be called once. The same kernels in the same order give the
  /// same bytes, however many threads there are.
  virtual llvm::Expected<CodeObject> finish() = 0;
};

/// The processor that the code of a compilation needs, as the manifest records it.
struct Processor {
  std::string arch;                  ///< "x86-64"
  std::vector<std::string> features; ///< "avx2", sorted
};

class Target {
public:
  virtual ~Target() = default;

  /// As --target and the manifest have it.
  virtual llvm::StringRef name() const = 0;
  virtual Processor processor() const = 0;
  /// Those that --arch may name; none where the target has no choice of them.
  virtual std::vector<std::string> architectures() const = 0;
  /// Loads the dialects that kernels become; contexts that compile for the target have them.
  virtual void loadDialects(mlir::MLIRContext &context) const = 0;

  /// True for an op that could be decomposed and that a library computes as it is.
  virtual bool staysWhole(mlir::Operation *op) const = 0;
  /// Whether libraries take products and convolutions of a half precision as they are; else copies
  /// in f32 are multiplied.
  virtual bool multiplies(mlir::Type half) const = 0;
  /// Whether convolutions of half precision may have results in f32; else these are rounded first.
  virtual bool hasWideConvolutions() const = 0;
  /// Whether convolutions may pad both ends of a dimension differently; else their inputs are
  /// padded before.
  virtual bool hasUnevenPadding() const = 0;
  /// Whether a gradient of a convolution's weight may be added to what accumulates such gradients.
  virtual bool accumulatesConvolutions() const = 0;
  virtual MatmulLimits matmulLimits() const = 0;
  virtual KernelLimits kernelLimits() const = 0;
  /// Elements that offsets and strides of attention's tensors are multiples of, where a library
  /// that takes it whole reads and writes parts of tensors. 0: it takes whole ones alone.
  virtual int64_t attentionAlignment() const = 0;
  /// What the library that takes an attention whole needs beside its tensors.
  virtual sharding::AttentionWorkspace attentionWorkspace(mlir::Operation *op) const = 0;
  /// How a kernel is launched whose body is `body`, in an exec.kernel. Fails with a diagnostic at
  /// what a kernel can't compute.
  virtual mlir::FailureOr<KernelShape> planKernel(mlir::Block &body) const = 0;

  /// Refuses ops that no library of the target computes for their element types, naming the first
  /// one of each. `module` has global shapes: this is asked before any long work.
  virtual mlir::LogicalResult checkElementTypes(mlir::ModuleOp module) const = 0;
  /// Of a module in exec form, for ranks of `threads` threads.
  virtual std::unique_ptr<Workspace> workspace(mlir::ModuleOp module, int64_t threads) const = 0;

  virtual std::unique_ptr<KernelCompilation>
  kernelCompilation(mlir::MLIRContext &context, const CodeOptions &options) const = 0;
};

/// Makes `target`, which must live longer, the one that contexts with this registry compile for.
void chooseTarget(mlir::DialectRegistry &registry, const Target &target);

/// The target of a context; fails with a diagnostic at `op` where none was chosen.
mlir::FailureOr<const Target *> targetOf(mlir::Operation *op);

/// True if the module has a call that the target's libraries can't make: planning memory failed
/// at it, and the model is what is refused.
bool lacksLibraryCall(mlir::ModuleOp module, const Target &target, int64_t threads);

} // namespace dtc::target
