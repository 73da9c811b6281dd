// Element types in memory and in computation.
#pragma once

#include "mlir/IR/Builders.h"

namespace dtc::kernels {

/// Half precision computes in f32; everything else as it is.
mlir::Type computeType(mlir::Type element);

/// Bytes of an element in memory; booleans take one.
int64_t storageBytes(mlir::Type element);

/// The LLVM-compatible type of an element in memory.
mlir::Type storageType(mlir::Type element);

/// How f32 is rounded to bf16, with the same results but for the bits of NaN: by arithmetic with
/// its bits, some nine instructions, or by one that the target has.
enum class Narrowing { Bits, Instruction };

/// A loaded element in its compute type, and back.
mlir::Value fromStorage(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                        mlir::Type element);
mlir::Value toStorage(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                      mlir::Type element, Narrowing narrowing);

/// `value` (in the compute type of `element`) rounded to what `element` can hold.
mlir::Value rounded(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                    mlir::Type element, Narrowing narrowing);

/// A constant as a table in the code: its elements in a row, in the compute type; booleans are
/// bytes.
mlir::DenseElementsAttr tableOf(mlir::DenseElementsAttr elements);

} // namespace dtc::kernels
