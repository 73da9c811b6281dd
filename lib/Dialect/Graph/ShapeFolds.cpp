// Folders of the ops that move elements: identities, and one op in place of two.
#include "Verify.h"

using namespace mlir;
using namespace dtc::graph;

/// `constant` with the type `type` when it holds one value everywhere, else null.
static Attribute foldSplat(Attribute constant, RankedTensorType type) {
  auto splat = dyn_cast_if_present<SplatElementsAttr>(constant);
  return splat ? splat.resizeSplat(type) : Attribute();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getResult().getType())
    return getInput();
  if (Attribute splat = foldSplat(adaptor.getInput(), getResult().getType()))
    return splat;
  auto inner = getInput().getDefiningOp<BroadcastOp>();
  if (!inner)
    return {};
  Shape dims;
  for (int64_t dim : inner.getDims())
    dims.push_back(getDims()[dim]);
  getInputMutable().assign(inner.getInput());
  setDims(dims);
  return getResult();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getResult().getType())
    return getInput();
  if (Attribute splat = foldSplat(adaptor.getInput(), getResult().getType()))
    return splat;
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

static bool isIdentity(ArrayRef<int64_t> perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i))
      return false;
  return true;
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (isIdentity(getPerm()))
    return getInput();
  if (Attribute splat = foldSplat(adaptor.getInput(), getResult().getType()))
    return splat;
  auto inner = getInput().getDefiningOp<TransposeOp>();
  if (!inner)
    return {};
  Shape perm;
  for (int64_t dim : getPerm())
    perm.push_back(inner.getPerm()[dim]);
  getInputMutable().assign(inner.getInput());
  setPerm(perm);
  return getResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  // Sizes equal and in bounds leave no room for another offset or stride,
  // except for a stride along a dimension of at most one element.
  if (getInput().getType() == getResult().getType())
    return getInput();
  if (Attribute splat = foldSplat(adaptor.getInput(), getResult().getType()))
    return splat;
  auto inner = getInput().getDefiningOp<SliceOp>();
  if (!inner || getResult().getType().getNumElements() == 0)
    return {};
  Shape offsets, strides;
  for (size_t i = 0; i < getOffsets().size(); ++i) {
    offsets.push_back(inner.getOffsets()[i] + getOffsets()[i] * inner.getStrides()[i]);
    // One element needs no stride; the product of two might overflow.
    strides.push_back(shapeOf(getResult())[i] == 1 ? 1
                                                   : getStrides()[i] * inner.getStrides()[i]);
  }
  getInputMutable().assign(inner.getInput());
  setOffsets(offsets);
  setStrides(strides);
  return getResult();
}
