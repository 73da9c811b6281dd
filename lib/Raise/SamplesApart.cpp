#include "dtc/Raise/SamplesApart.h"

#include "BatchTrace.h"

using namespace mlir;

namespace dtc::raise {

LogicalResult checkSamplesApart(func::FuncOp func, ArrayRef<std::string> whole, std::string purpose,
                                std::string advice) {
  BatchTrace trace(func, BatchTrace::Ends::Refused, std::move(purpose), std::move(advice));
  if (failed(trace.start(whole)))
    return failure();
  auto norms = func.getOps<graph::BatchNormOp>();
  if (!norms.empty())
    return trace.refuse((*norms.begin())->getLoc(), "batch norm in training mode mixes samples");
  if (failed(trace.propagate()))
    return failure();
  for (Value output : func.getBody().front().getTerminator()->getOperands())
    if (auto place = trace.placeIn(output); place && !(*place == BatchPlace{0, 1, 1}))
      return trace.refuse(output.getLoc(), "an output hasn't the samples first");
  return success();
}

} // namespace dtc::raise
