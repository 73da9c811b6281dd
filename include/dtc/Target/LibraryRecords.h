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

/// dtc.conv, dtc.conv_input_grad or dtc.conv_weight_grad.
bool isConv(mlir::Operation *op);

/// dtc.attention or dtc.attention_grad, where a library computes them as they are.
bool isAttention(mlir::Operation *op);
/// What a library computes as it is in the graph.
bool isLibraryCall(mlir::Operation *op);

rt::fbs::MatmulT matmulRecord(exec::MatmulOp op);
rt::fbs::ConvT convRecord(mlir::Operation *conv);
/// What attention reads and writes, as a program lists it: operands, results, then a bias.
llvm::SmallVector<mlir::Value> attentionTensors(mlir::Operation *attention);
rt::fbs::AttentionT attentionRecord(mlir::Operation *attention);

} // namespace dtc::target
