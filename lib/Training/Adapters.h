// Low-rank adapters (LoRA): Hu et al., LoRA: Low-Rank Adaptation of Large Language
// Models, ICLR 2022, section 4.1.
//
// Every product with a weight that is asked for is extended. Instead of y = x W it becomes y = x W
// + alpha / rank * (x A) B. The model's own parameters are trained no more. A rank-16 adapter of
//
//   %y = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1]        64 samples, 512 -> 256
//
// is
//
//   %t = dtc.contract %x [0, 2], %a [1, 2] -> [0, 1]        a: 16x512, @w.lora_A.weight
//   %d = dtc.contract %t [0, 2], %b [1, 2] -> [0, 1]        b: 256x16, @w.lora_B.weight
//   %z = arith.addf %y, %d
//
// In the file A is [rank, in] and B [out, rank], as in Hugging Face's PEFT, whatever the weight's
// own layout is. Adapters of experts have those of all in front. A is drawn as deviating as PEFT's,
// which is uniform, and B starts at 0.
#pragma once

#include "dtc/Training/Train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dtc::training {

/// Adds the adapters to `forward` and freezes all other parameters. An error where
/// there is no product to adapt.
mlir::LogicalResult addAdapters(mlir::ModuleOp module, mlir::func::FuncOp forward,
                                const AdapterOptions &options);

} // namespace dtc::training
