// What the libraries of a GPU are asked for: products by cuBLASLt, convolutions by cuDNN.
#pragma once

#include "dtc/Target/Target.h"

namespace dtc::cuda {

/// Two of a matrix, and one over which products of equal strides follow each other.
inline constexpr size_t kMostProductDims = 3;

/// cuDNN takes strides of attention's tensors, by which every head begins at 16 bytes.
inline constexpr int64_t kAttentionAlignment = 8;

/// Whether cuDNN computes this attention, forward and backward, on all architectures. It does in
/// half precision, with heads of a multiple of 8 and at most 128. A bias is taken in the one form
/// that was seen right, and not beside a window.
bool takesAttention(mlir::Operation *op);

/// What cuDNN needs for this attention beside its tensors.
sharding::AttentionWorkspace attentionWorkspace(mlir::Operation *op);

/// Refuses products and convolutions that the libraries haven't, naming the first op of each.
mlir::LogicalResult checkLibraryCalls(mlir::ModuleOp module);

/// The same for every product: cuBLASLt takes what it finds useful of it. cuDNN may also need its
/// operands in another layout.
class LibraryWorkspace : public target::Workspace {
public:
  mlir::FailureOr<uint64_t> bytesOf(mlir::Operation *op) override;
};

} // namespace dtc::cuda
