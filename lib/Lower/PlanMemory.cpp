#include "BufferAssignment.h"

#include "dtc/Lower/OffsetAssigner.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Target/Target.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_PLANMEMORY
#include "dtc/Lower/Passes.h.inc"

namespace {

/// Plans one function's temporaries and writes the offsets into its ops.
class FunctionPlanner {
public:
  FunctionPlanner(func::FuncOp function, const HomeTable &homes, target::Workspace &workspace)
      : function(function), homes(homes), workspace(workspace) {}

  /// Places the temporaries.
  FailureOr<OffsetAssignment> plan() {
    buffers.emplace(function, homes);
    if (!buffers->getMisplacedResults().empty()) {
      copyResults(buffers->getMisplacedResults());
      buffers.emplace(function, homes);
    }
    if (!buffers->getMisplacedResults().empty())
      return function.emitError("results exchange the places of arguments");
    collectBuffers();
    if (failed(checkHostCopies()) || failed(collectScratch()))
      return failure();
    assignment = assignOffsets(intervals, kAlignment);
    annotate();
    return assignment;
  }

private:
  /// Copies results that can't be computed in their homes.
  void copyResults(const std::vector<unsigned> &misplaced) {
    Operation *terminator = function.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    for (unsigned i : misplaced) {
      Value value = terminator->getOperand(i);
      bool toHost = homes.getHomes()[homes.find(graph::getResultRole(function, i))].isOnHost();
      terminator->setOperand(i, exec::CopyOp::create(builder, value.getLoc(), value, toHost));
    }
  }

  /// Host memory is what outlives the function, and nothing else.
  LogicalResult checkHostCopies() {
    for (auto copy : function.getOps<exec::CopyOp>()) {
      const Buffer &buffer = buffers->getBuffers()[buffers->bufferOf(copy.getResult())];
      if (copy.getToHost() && !buffer.home)
        return copy.emitError("copies to the host what is not returned there");
    }
    return success();
  }

  void collectBuffers() {
    temporaries.resize(buffers->getBuffers().size());
    for (auto [i, buffer] : llvm::enumerate(buffers->getBuffers())) {
      if (buffer.home)
        continue;
      temporaries[i] = intervals.size();
      intervals.push_back({buffer.first, buffer.last, buffer.bytes});
    }
  }

  LogicalResult collectScratch() {
    for (Operation &op : function.getBody().front()) {
      FailureOr<uint64_t> bytes = workspace.bytesOf(&op);
      if (failed(bytes))
        return failure();
      if (*bytes == 0)
        continue;
      scratch[&op] = intervals.size();
      int64_t time = buffers->timeOf(&op);
      intervals.push_back({time, time, *bytes});
    }
    return success();
  }

  int64_t temporaryOffset(size_t interval) const {
    return static_cast<int64_t>(homes.temporariesOf(function) + assignment.offsets[interval]);
  }

  int64_t offsetOf(Value value) const {
    size_t index = buffers->bufferOf(value);
    const Buffer &buffer = buffers->getBuffers()[index];
    return bytesInto(value) + (buffer.home
                                   ? static_cast<int64_t>(homes.getHomes()[*buffer.home].offset)
                                   : temporaryOffset(temporaries[index]));
  }

  void annotate() {
    Builder builder(function.getContext());
    graph::setArgAttrs(function, exec::ExecDialect::kOffsets,
                       llvm::map_to_vector(function.getArguments(),
                                           [&](Value argument) -> Attribute {
                                             return builder.getI64IntegerAttr(offsetOf(argument));
                                           }));
    for (Operation &op : function.getBody().front().without_terminator()) {
      SmallVector<int64_t> offsets = llvm::map_to_vector(
          op.getResults(), [&](Value result) { return offsetOf(result); });
      op.setAttr(exec::ExecDialect::kOffsets, builder.getDenseI64ArrayAttr(offsets));
      if (auto it = scratch.find(&op); it != scratch.end()) {
        int64_t place[] = {temporaryOffset(it->second),
                           static_cast<int64_t>(intervals[it->second].size)};
        op.setAttr(exec::ExecDialect::kScratch, builder.getDenseI64ArrayAttr(place));
      }
    }
  }

  func::FuncOp function;
  const HomeTable &homes;
  target::Workspace &workspace;
  std::optional<BufferAssignment> buffers;
  std::vector<Interval> intervals;
  std::vector<size_t> temporaries; ///< by buffer: its interval, where it has one
  llvm::DenseMap<Operation *, size_t> scratch;
  OffsetAssignment assignment;
};

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  LogicalResult planFunction(func::FuncOp function, const HomeTable &homes,
                             target::Workspace &workspace, uint64_t &arena) {
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitError("must have a single block");
    FailureOr<OffsetAssignment> planned = FunctionPlanner(function, homes, workspace).plan();
    if (failed(planned))
      return failure();
    arena = std::max(arena, homes.temporariesOf(function) + planned->total);
    return success();
  }

  LogicalResult run() {
    ModuleOp module = getOperation();
    if (threads < 1)
      return module.emitError("number of threads must be positive, got: ") << threads.getValue();
    FailureOr<HomeTable> homes = HomeTable::build(module);
    if (failed(homes))
      return failure();
    FailureOr<const target::Target *> target = target::targetOf(module);
    if (failed(target))
      return failure();
    std::unique_ptr<target::Workspace> workspace = (*target)->workspace(module, threads);
    uint64_t arena = homes->size(); // the functions take turns behind what outlives them
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(planFunction(function, *homes, *workspace, arena)))
        return failure();
    Builder builder(&getContext());
    module->setAttr(exec::ExecDialect::kArenaBytes, builder.getI64IntegerAttr(arena));
    if (homes->hostSize() > 0)
      module->setAttr(exec::ExecDialect::kHostBytes,
                      builder.getI64IntegerAttr(homes->hostSize()));
    module->setAttr(exec::ExecDialect::kThreads, builder.getI64IntegerAttr(threads));
    return success();
  }

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace dtc::lower
