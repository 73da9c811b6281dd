#include "ApartRanks.h"
#include "Evaluator.h"

#include "dtc/Dialect/Dist/StageOps.h"

using namespace mlir;

namespace dtc::interpreter {
namespace {

/// A rank's call with the sums so far behind its own arguments.
struct Progress {
  RankCall call;
  OwningOpRef<func::FuncOp> rest; ///< of the function, without sums that are made

  dist::StageSumOp next() {
    auto sums = (*rest).front().getOps<dist::StageSumOp>();
    return sums.empty() ? dist::StageSumOp() : *sums.begin();
  }
};

class ApartEvaluator {
public:
  ApartEvaluator(std::vector<RankCall> calls, Decompositions &decompositions)
      : decompositions(decompositions) {
    for (RankCall &call : calls) {
      OwningOpRef<func::FuncOp> copy = cast<func::FuncOp>(call.function->clone());
      ranks.push_back({std::move(call), std::move(copy)});
    }
  }

  FailureOr<std::vector<std::vector<Tensors>>> run() {
    for (;;) {
      FailureOr<bool> found = sumNext();
      if (failed(found))
        return failure();
      if (!*found)
        break;
    }
    std::vector<std::vector<Tensors>> results;
    for (Progress &rank : ranks) {
      auto own = evaluateRanks(*rank.rest, *rank.call.mesh, rank.call.inputs, Numerics::Double,
                               decompositions);
      if (failed(own))
        return failure();
      results.push_back(std::move(*own));
    }
    return results;
  }

private:
  Progress *rankOf(int64_t rank) {
    auto found = llvm::find_if(ranks, [&](const Progress &one) { return one.call.rank == rank; });
    return found == ranks.end() ? nullptr : &*found;
  }

  /// Whether all ranks of a sum have come to it. Rank r has stage r.
  bool isComplete(dist::StageSumOp sum) {
    return llvm::all_of(sum.getStages(), [&](int64_t rank) {
      Progress *member = rankOf(rank);
      dist::StageSumOp other = member ? member->next() : nullptr;
      return other && other.getStages() == sum.getStages() && other.getApart() == sum.getApart() &&
             other.getOperandTypes() == sum.getOperandTypes();
    });
  }

  /// False where none is left.
  FailureOr<bool> sumNext() {
    dist::StageSumOp waiting;
    for (Progress &rank : ranks) {
      dist::StageSumOp sum = rank.next();
      if (!sum)
        continue;
      waiting = sum;
      if (llvm::is_contained(sum.getStages(), rank.call.rank) && isComplete(sum))
        return failed(add(sum)) ? FailureOr<bool>(failure()) : FailureOr<bool>(true);
    }
    if (waiting)
      return waiting.emitOpError("waits for a rank of the pipeline that makes another call");
    return false;
  }

  LogicalResult add(dist::StageSumOp sum) {
    const bool isApart = sum.getApart();
    if (sum.getAxesAttr())
      return sum.emitOpError("sums over axes, which the meshes of other stages lack");
    SmallVector<int64_t> stages(sum.getStages());
    std::vector<Tensors> totals; ///< by position; one where all devices add up
    for (int64_t stage : stages) {
      Progress &rank = *rankOf(stage);
      auto terms = termsOf(rank);
      if (failed(terms))
        return failure();
      totals.resize(isApart ? 1 : std::max(totals.size(), terms->size()));
      for (auto [position, ofDevice] : llvm::enumerate(*terms))
        addTo(totals[isApart ? 0 : position], ofDevice);
    }
    for (int64_t stage : stages)
      take(*rankOf(stage), totals, isApart);
    return success();
  }

  static void addTo(Tensors &totals, const Tensors &terms) {
    if (totals.empty())
      for (const Tensor &term : terms)
        totals.emplace_back(term.type);
    for (auto [total, term] : llvm::zip_equal(totals, terms))
      for (auto [a, b] : llvm::zip_equal(total.floats, term.floats))
        a += b;
  }

  /// The operands of the next sum, by device.
  FailureOr<std::vector<Tensors>> termsOf(Progress &rank) {
    OwningOpRef<func::FuncOp> before = cast<func::FuncOp>((*rank.rest)->clone());
    Block &block = (*before).front();
    Operation *end = *block.getOps<dist::StageSumOp>().begin();
    SmallVector<Value> terms(end->getOperands());
    OpBuilder builder(end);
    func::ReturnOp::create(builder, end->getLoc(), terms);
    while (&block.back() != end)
      block.back().erase();
    end->erase();
    (*before).setFunctionType(
        builder.getFunctionType((*before).getArgumentTypes(), ValueRange(terms).getTypes()));
    (*before)->removeAttr((*before).getResAttrsAttrName());
    return evaluateRanks(*before, *rank.call.mesh, rank.call.inputs, Numerics::Double,
                         decompositions);
  }

  /// The sum becomes an argument.
  static void take(Progress &rank, const std::vector<Tensors> &totals, bool isApart) {
    dist::StageSumOp sum = rank.next();
    for (Value total : sum.getOutputs()) {
      unsigned index = (*rank.rest).getNumArguments();
      (void)(*rank.rest).insertArgument(index, total.getType(), {}, total.getLoc());
      total.replaceAllUsesWith((*rank.rest).getArgument(index));
    }
    sum.erase();
    for (auto [position, ofDevice] : llvm::enumerate(rank.call.inputs))
      llvm::append_range(ofDevice, totals[isApart ? 0 : position]);
  }

  Decompositions &decompositions;
  std::vector<Progress> ranks;
};

} // namespace

FailureOr<std::vector<std::vector<Tensors>>> evaluateApart(std::vector<RankCall> calls,
                                                           Decompositions &decompositions) {
  return ApartEvaluator(std::move(calls), decompositions).run();
}

} // namespace dtc::interpreter
