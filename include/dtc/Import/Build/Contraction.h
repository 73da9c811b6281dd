// Matrix products in all their forms.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// NumPy's matmul: leading dimensions broadcast.
llvm::FailureOr<Tensor> matmulTensors(Conversion &node, const Tensor &left, const Tensor &right);

/// NumPy's einsum: "bsk,bske->bse", "...ij,jk", "ii->i".
llvm::FailureOr<Tensor> einsum(Conversion &node, llvm::StringRef text,
                               llvm::ArrayRef<Tensor> operands);

} // namespace dtc::import
