#include "dtc/Lower/PartialFunction.h"

#include "BufferAssignment.h"

#include "dtc/Lower/OffsetAssigner.h"
#include "dtc/Target/Target.h"

using namespace mlir;

namespace dtc::lower {

FailureOr<int64_t> bytesWithinFunction(ModuleOp module, int64_t threads, uint64_t setAside,
                                       const PartPlaces &places) {
  auto functions = module.getOps<func::FuncOp>();
  if (!llvm::hasSingleElement(functions))
    return module.emitError("needs one function, has: ")
           << std::distance(functions.begin(), functions.end());
  func::FuncOp function = *functions.begin();
  FailureOr<HomeTable> homes = HomeTable::build(module);
  if (failed(homes))
    return failure();
  BufferAssignment buffers(function, *homes, &places);
  std::vector<Interval> intervals;
  for (const Buffer &buffer : buffers.getBuffers())
    if (!buffer.home)
      intervals.push_back({buffer.first, buffer.last, buffer.bytes});
  FailureOr<const target::Target *> target = target::targetOf(module);
  if (failed(target))
    return failure();
  std::unique_ptr<target::Workspace> workspace = (*target)->workspace(module, threads);
  for (Operation &op : function.getBody().front()) {
    FailureOr<uint64_t> scratch = workspace->bytesOf(&op);
    if (failed(scratch))
      return failure();
    if (*scratch > setAside)
      intervals.push_back({buffers.timeOf(&op), buffers.timeOf(&op), *scratch - setAside});
  }
  auto bytes = static_cast<int64_t>(peakBytes(intervals, kAlignment));
  for (auto [type, isSpent] : llvm::zip_equal(function.getArgumentTypes(), places.spent))
    bytes -= isSpent ? static_cast<int64_t>(alignUp(bytesOf(type))) : 0;
  for (auto [type, isApart] : llvm::zip_equal(function.getResultTypes(), places.apart))
    bytes -= isApart ? 0 : static_cast<int64_t>(alignUp(bytesOf(type)));
  return bytes;
}

} // namespace dtc::lower
