// Products and convolutions of half precision that no library of the target makes.
//
//     y = x * w : bf16           copies of both operands in f32 are multiplied,
//     z = gelu(y + b)            and kernels that read y round it for themselves
//
// What several read stays narrow between them. Else one copy in f32 would serve the forward and the
// backward pass, and be kept from one to the other. So does y where z is computed behind another
// product, as in a backward pass: the product's own result in f32 would be kept until then.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Whether an op is a product or a convolution, or attention that becomes products, of a half
/// precision that the target's libraries don't multiply.
bool multipliesCopies(mlir::Operation *op, const target::Target &target);

/// Those whose operands the target's libraries don't multiply become products of f32, rounded to
/// what they were. What ops compute alike is merged before, as the scores of attention in both
/// passes: the copies would keep them apart. The function has one block.
void widenProducts(mlir::func::FuncOp function, const target::Target &target);

} // namespace dtc::kernels
