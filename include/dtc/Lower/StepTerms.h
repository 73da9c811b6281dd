// What a rank's step computes: a number for each value, made of its op and of its operands'
// numbers.
//
// Passes between the list of calls and the program move sums from the update into a backward pass,
// copy what lies on the host, and start what goes on beside. None of them may change a result. So
// what outlives the step is made of the same ops before and after them:
//
//   before   @backward gives %g                    @update: %s = all_reduce %g    adam(%p, %s)
//   after    @backward_last gives all_reduce %g    @update:                       adam(%p, %g)
//   both     the parameter is adam(p, all_reduce(g))
//
// A copy has the number of what it copies, as a value that was waited for has. A bucket's results
// are each made of one operand, whatever else is in it. Calls for three microbatches are followed,
// the first two and the last. Which calls there are, and what lies where, the replay checks.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "llvm/ADT/MapVector.h"

#include <string>
#include <vector>

namespace dtc::lower {

class StepTerms {
public:
  StepTerms() = default;
  explicit StepTerms(mlir::ModuleOp module);

  /// The first role that two steps give otherwise, or "a message"; empty: there is none.
  std::string differenceFrom(const StepTerms &other) const;

private:
  using Term = size_t;
  /// A role and the microbatch, or -1 where all have it in turn.
  using Key = std::pair<mlir::Attribute, int64_t>;

  void call(mlir::func::FuncOp function, int64_t microbatch);
  Term argument(graph::RoleAttr role, int64_t microbatch);
  static Term termOf(mlir::OpResult result, llvm::ArrayRef<Term> operands, int64_t microbatch);

  llvm::MapVector<Key, Term> held;
  std::vector<Term> sent;
};

} // namespace dtc::lower
