// Library ops of the IR as the package's records of calls, without addresses and scratch.
//
// The phase that writes programs and the targets that make the calls see an op through the same
// record. So scratch is planned for what is executed.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc-rt/Program_generated.h"

#include <optional>

namespace dtc::target {

/// The element type in the package; none for types that no tensor may have there.
std::optional<rt::fbs::DType> dtypeOf(mlir::Type elementType);

/// dtc.conv, dtc.conv_input_grad or dtc.conv_weight_grad, or exec.conv_weight_grad.
bool isConv(mlir::Operation *op);

/// dtc.attention, dtc.attention_grad or dtc.attention_part_grad, which become exec.attention where
/// a library computes them as they are.
bool isAttention(mlir::Operation *op);
/// What a library computes.
bool isLibraryCall(mlir::Operation *op);

rt::fbs::MatmulT matmulRecord(exec::MatmulOp op);
rt::fbs::ConvT convRecord(mlir::Operation *conv);
/// The tensors of attention by their numbers in the op, as a program lists them: inputs, what is
/// computed, then a bias.
llvm::SmallVector<size_t> attentionTensors(exec::AttentionOp attention);
rt::fbs::AttentionT attentionRecord(exec::AttentionOp attention);

} // namespace dtc::target
