#include "dtc/Raise/FollowBatch.h"

#include "BatchTrace.h"

using namespace mlir;

namespace dtc::raise {

/// Moves dimension `from` to `to`.
static Value moveDim(Emitter &emit, Value value, int64_t from, int64_t to) {
  Shape perm;
  for (int64_t i = 0; i < tensorType(value).getRank(); ++i)
    if (i != from)
      perm.push_back(i);
  perm.insert(perm.begin() + to, from);
  return transpose(emit, value, perm);
}

Value fromSamplesFirst(Emitter &emit, Value value, std::optional<int64_t> dim) {
  if (dim)
    return moveDim(emit, value, 0, *dim);
  return reshape(emit, value, tensorType(value).getShape().drop_front());
}

Value toSamplesFirst(Emitter &emit, Value value, std::optional<int64_t> dim) {
  if (dim)
    return moveDim(emit, value, *dim, 0);
  Shape shape = {1};
  shape.append(tensorType(value).getShape().begin(), tensorType(value).getShape().end());
  return reshape(emit, value, shape);
}

/// All values that a sample reaches, whether or not it keeps a dimension.
static llvm::DenseSet<Value> reached(func::FuncOp func, const BatchTrace &trace) {
  llvm::DenseSet<Value> values;
  for (BlockArgument argument : func.getArguments())
    if (trace.placeIn(argument))
      values.insert(argument);
  for (Operation &op : func.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value value) { return values.contains(value); }))
      values.insert(op.result_begin(), op.result_end());
  return values;
}

FailureOr<std::vector<SamplesIn>> followSamples(func::FuncOp func, ArrayRef<std::string> whole,
                                                ArrayRef<Value> values) {
  BatchTrace trace(func, BatchTrace::Ends::Allowed, "cannot follow the samples to the outputs");
  if (failed(trace.start(whole)))
    return failure();
  const llvm::DenseSet<Value> touched = reached(func, trace);
  if (failed(trace.propagate()))
    return failure();
  std::vector<SamplesIn> found;
  for (Value value : values) {
    found.push_back({touched.contains(value), std::nullopt});
    auto place = trace.placeIn(value);
    if (!found.back().any)
      continue;
    if (place && place->outer == 1 && place->inner == 1)
      found.back().dim = place->dim;
    else if (auto shape = tensorType(value).getShape(); trace.size() == 1)
      if (auto one = llvm::find(shape, 1); one != shape.end())
        found.back().dim = one - shape.begin();
  }
  return found;
}

} // namespace dtc::raise
