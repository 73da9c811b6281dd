#include "dtc/Kernels/InPlace.h"
#include "dtc/Kernels/ElementTypes.h"

#include <set>

using namespace mlir;

namespace dtc::kernels {

/// Whether all that a kernel does is to put zeros behind its operand. Whoever reads an element
/// writes it again as it is.
static bool putsZerosBehind(const BodyInfo &info) {
  if (info.body.getNumArguments() != 1 || info.results.size() != 1 || !info.joins.empty())
    return false;
  auto pad = graph::withoutReshapes(info.results[0]).getDefiningOp<graph::PadOp>();
  return pad && pad.getValue().isZero() && pad.getLow() == ArrayRef<int64_t>{0} &&
         pad.getInterior() == ArrayRef<int64_t>{0} &&
         graph::withoutReshapes(pad.getInput()) == info.body.getArgument(0);
}

SmallVector<int64_t> chooseInPlace(const BodyInfo &info,
                                   llvm::function_ref<bool(unsigned, unsigned)> fits) {
  if (putsZerosBehind(info))
    return {0};
  std::set<unsigned> taken;
  auto isFree = [&](unsigned operand, unsigned result) {
    Value from = info.body.getArgument(operand), to = info.results[result];
    return !taken.count(operand) && elementsOf(from) == elementsOf(to) &&
           storageBytes(getElementTypeOrSelf(from)) == storageBytes(getElementTypeOrSelf(to)) &&
           fits(operand, result);
  };
  SmallVector<int64_t> replaces(info.results.size(), -1);
  auto kernel = dyn_cast<exec::KernelOp>(info.body.getParentOp());
  if (kernel && kernel.getReplaces())
    llvm::copy(kernel.getReplaces()->take_front(replaces.size()), replaces.begin());
  auto choose = [&](unsigned result) -> int64_t {
    if (replaces[result] >= 0 && isFree(replaces[result], result))
      return replaces[result];
    for (unsigned operand = 0; operand < info.body.getNumArguments(); ++operand)
      if (!llvm::is_contained(replaces, operand) && isFree(operand, result))
        return operand;
    return -1;
  };
  SmallVector<int64_t> chosen;
  for (unsigned result = 0; result < info.results.size(); ++result) {
    chosen.push_back(choose(result));
    if (chosen.back() >= 0)
      taken.insert(chosen.back());
  }
  return chosen;
}

} // namespace dtc::kernels
