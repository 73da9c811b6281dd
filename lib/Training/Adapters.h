// Low-rank adapters (LoRA): Hu et al., LoRA: Low-Rank Adaptation of Large Language
// Models, ICLR 2022, section 4.1.
//
// Every product with a trainable weight of the model, y = x W, becomes
// y = x W + (x A) B with A [in, rank] and B [rank, out]; the model's own
// parameters are trained no more. A rank-16 adapter of
//
//   %y = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]        64 samples, 512 -> 256
//
// is
//
//   %t = dtc.contract %x [0, 2], %a [2, 1] -> [0, 1]        a: 512x16, @w.lora_A
//   %d = dtc.contract %t [0, 2], %b [2, 1] -> [0, 1]        b: 16x256, @w.lora_B
//   %z = arith.addf %y, %d
//
// LoRA's constant factor on B is left to the values of B.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dtc::training {

/// Adds the adapters to `forward` and freezes all other parameters. An error where
/// there is no product to adapt.
mlir::LogicalResult addAdapters(mlir::ModuleOp module, mlir::func::FuncOp forward, int64_t rank);

} // namespace dtc::training
