#ifndef DTC_DIALECT_EXEC_GROUPEDMATMULOP_TD
#define DTC_DIALECT_EXEC_GROUPEDMATMULOP_TD

include "dtc/Dialect/Dist/DistBase.td"
include "dtc/Dialect/Exec/ExecBase.td"
include "dtc/Interfaces/KernelInterface.td"

def Exec_GroupedMatmulOp : Exec_Op<"grouped_matmul",
    [Pure, DeclareOpInterfaceMethods<KernelOpInterface>]> {
  let summary = "matrix products with the matrices of the experts that tiles of rows chose";
  let description = [{
    A batch of products as those of exec.matmul. Each has an expert, `choices[batch...]`, and
    `experts` are the strides by which lhs, rhs and result go from one expert to the next. One of
    them has experts, the others have 0. Where an operand has them,

        result[batch..., m, n] = sum_k lhs[batch..., m, k] * rhs[expert, batch..., k, n]

    and a product whose choice is no expert is zeros. Where the result has them, the products of an
    expert are added up, along the dimensions of the batch where the result has stride 0:

        result[expert, m, n] = sum_batch,k lhs[batch..., m, k] * rhs[batch..., k, n]

    and a product whose choice is no expert is in no sum. Products accumulate in f32 at least.
    Columns of the result lie side by side.

        %y = exec.grouped_matmul %x, %w by %choices batch [2, 6] mnk [16, 32, 64] of 4 experts [0, 2048, 0]
            strides [6144, 1024, 64, 1], [0, 0, 1, 64] -> [3072, 512, 32, 1]
            : tensor<2x6x16x64xbf16>, tensor<4x32x64xbf16>, tensor<2x6xi64> -> tensor<2x6x16x32xbf16>
  }];
  let arguments = (ins AnyStaticShapeTensor:$lhs, AnyStaticShapeTensor:$rhs,
                       AnyStaticShapeTensor:$choices, DenseI64ArrayAttr:$batch,
                       DenseI64ArrayAttr:$mnk, I64Attr:$count, DenseI64ArrayAttr:$experts,
                       DenseI64ArrayAttr:$lhsStrides, DenseI64ArrayAttr:$rhsStrides,
                       DenseI64ArrayAttr:$resultStrides);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `by` $choices `batch` $batch `mnk` $mnk `of` $count `experts` $experts `strides`
    $lhsStrides `,` $rhsStrides `->` $resultStrides attr-dict `:` type($lhs) `,` type($rhs) `,`
    type($choices) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the products of an expert are added up.
    bool addsUp() { return getExperts()[2] != 0; }
  }];
}

#endif // DTC_DIALECT_EXEC_GROUPEDMATMULOP_TD
