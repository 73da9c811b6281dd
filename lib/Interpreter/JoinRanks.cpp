#include "JoinRanks.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Dist/StageOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dtc::interpreter {
namespace {

/// How far a rank's function has been carried over.
struct Cursor {
  Block::iterator at;
  IRMapping mapping;

  bool isAtEnd() const { return isa<func::ReturnOp>(*at); }
  dist::StageSumOp sum() const { return dyn_cast<dist::StageSumOp>(*at); }
};

class RankJoiner {
public:
  RankJoiner(ArrayRef<func::FuncOp> functions, MLIRContext *context)
      : functions(functions), builder(context) {}

  FailureOr<OwningOpRef<func::FuncOp>> run() {
    begin();
    while (!llvm::all_of(cursors, [](const auto &entry) { return entry.second.isAtEnd(); })) {
      for (auto &[rank, cursor] : cursors)
        for (; !cursor.isAtEnd() && !cursor.sum(); ++cursor.at)
          builder.clone(*cursor.at, cursor.mapping);
      if (failed(sumNext()))
        return failure();
    }
    finish();
    return std::move(joined);
  }

private:
  void begin() {
    SmallVector<Type> types;
    for (func::FuncOp function : functions)
      if (function)
        llvm::append_range(types, function.getArgumentTypes());
    Location loc = builder.getUnknownLoc();
    joined = func::FuncOp::create(loc, "joined", builder.getFunctionType(types, {}));
    Block *block = joined->addEntryBlock();
    builder.setInsertionPointToEnd(block);
    size_t next = 0;
    for (size_t rank = 0; rank < functions.size(); ++rank) {
      func::FuncOp function = functions[rank];
      if (!function)
        continue;
      Cursor &cursor = cursors[static_cast<int64_t>(rank)];
      cursor.at = function.front().begin();
      for (BlockArgument argument : function.getArguments())
        cursor.mapping.map(argument, block->getArgument(next++));
    }
  }

  /// Whether all ranks of a sum have come to it.
  bool isComplete(dist::StageSumOp sum) {
    return llvm::all_of(sum.getStages(), [&](int64_t rank) {
      auto member = cursors.find(rank);
      dist::StageSumOp other = member == cursors.end() ? nullptr : member->second.sum();
      return other && other.getStages() == sum.getStages() && other.getAxes() == sum.getAxes() &&
             other.getOperandTypes() == sum.getOperandTypes();
    });
  }

  LogicalResult sumNext() {
    dist::StageSumOp waiting;
    for (auto &[rank, cursor] : cursors) {
      dist::StageSumOp sum = cursor.sum();
      if (!sum)
        continue;
      waiting = sum;
      if (!llvm::is_contained(sum.getStages(), rank) || !isComplete(sum))
        continue;
      add(sum);
      return success();
    }
    return waiting ? waiting.emitOpError("waits for a rank of the pipeline that makes another call")
                   : success();
  }

  void add(dist::StageSumOp sum) {
    SmallVector<int64_t> ranks(sum.getStages());
    SmallVector<Value> totals;
    for (unsigned i = 0; i < sum.getInputs().size(); ++i) {
      SmallVector<Value> terms;
      for (int64_t rank : ranks)
        terms.push_back(cursors[rank].mapping.lookup(cursors[rank].sum().getInputs()[i]));
      Value total = terms.size() == 1 ? terms.front()
                                      : graph::SumOp::create(builder, sum.getLoc(),
                                                             terms.front().getType(), terms)
                                            .getResult();
      totals.push_back(total);
    }
    if (dist::AxesAttr axes = sum.getAxesAttr())
      totals = llvm::to_vector_of<Value>(
          dist::AllReduceOp::create(builder, sum.getLoc(), TypeRange(ValueRange(totals)), totals,
                                    sum.getMesh(), axes, graph::ReduceKind::Sum)
              .getResults());
    for (int64_t rank : ranks) {
      Cursor &cursor = cursors[rank];
      cursor.mapping.map(cursor.sum().getResults(), totals);
      ++cursor.at;
    }
  }

  void finish() {
    SmallVector<Value> results;
    for (auto &[rank, cursor] : cursors)
      for (Value value : cursor.at->getOperands())
        results.push_back(cursor.mapping.lookup(value));
    func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
    joined->setType(builder.getFunctionType(joined->getArgumentTypes(),
                                            llvm::to_vector(ValueRange(results).getTypes())));
  }

  ArrayRef<func::FuncOp> functions;
  OpBuilder builder;
  OwningOpRef<func::FuncOp> joined;
  std::map<int64_t, Cursor> cursors; ///< by rank
};

} // namespace

FailureOr<OwningOpRef<func::FuncOp>> joinRanks(ArrayRef<func::FuncOp> functions,
                                               MLIRContext *context) {
  return RankJoiner(functions, context).run();
}

} // namespace dtc::interpreter
