#include "GroupedProducts.h"

#include "dtc/Dialect/Exec/GroupedMatmulOp.h"
#include "dtc/Kernels/GroupedForm.h"

using namespace mlir;

namespace dtc::kernels {

void callGroupedProducts(func::FuncOp function, const target::Target &target) {
  SmallVector<graph::GroupedContractOp> products;
  function.walk([&](graph::GroupedContractOp op) {
    if (target.staysWhole(op))
      products.push_back(op);
  });
  OpBuilder builder(function.getContext());
  for (graph::GroupedContractOp op : products) {
    const GroupedForm form = *groupedForm(op);
    Value lhs = graph::withoutReshapes(op.getLhs()), rhs = graph::withoutReshapes(op.getRhs());
    if (form.swapped)
      std::swap(lhs, rhs);
    builder.setInsertionPoint(op);
    auto made = exec::GroupedMatmulOp::create(
        builder, op.getLoc(), op.getType(), lhs, rhs, graph::withoutReshapes(op.getChoices()),
        form.batch, ArrayRef<int64_t>{form.m, form.n, form.k}, op.getIndexSizes()[op.getExperts()],
        form.experts, form.strides[0], form.strides[1], form.strides[2]);
    made->setDiscardableAttrs(llvm::to_vector(op->getDiscardableAttrs()));
    op.replaceAllUsesWith(made.getResult());
    op.erase();
  }
}

} // namespace dtc::kernels
