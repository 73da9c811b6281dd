// What the calls of a pipeline stage allocate and free, in order: an execution read off
// as requests to an allocator.
//
// Take y = f(x), z = g(y) with a backward pass that reads y and z. One stage's forward call
// allocates t (a temporary of f), y, frees t, allocates z. Its backward call frees z and y after
// the steps that read them last. What other stages make and this one reads is there from the
// beginning of the call that reads it first.
#pragma once

#include "dtc/Plan/Emulate/AllocationEvents.h"
#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Predict/RankExecution.h"

namespace dtc::plan {

class AllocationSequence {
public:
  /// Of the model whose execution is given, with units between `at.cuts`; of a folded
  /// one, the whole model's.
  AllocationSequence(const Problem &problem, const RankExecution &execution, const FoldedCuts &at);

  /// What a microbatch's gradient takes of the sum of all: it has its parameter's type.
  double gradientShare() const { return share; }

  /// Whether blocks that are alike make the same buffers in the same order, so that
  /// one can stand for others.
  bool inStep() const { return aligned; }
  /// Of the units [a, b) of the whole model. `split`: passes for gradients of
  /// inputs and of weights are calls of their own.
  StageAllocations stage(int a, int b, bool split) const;

private:
  /// A step of the execution in one of the blocks for which its block stands.
  struct Place {
    int step = 0, copy = 0, unit = 0;
  };
  class Stage;

  void findTerms(const Problem &problem);
  void findWriters();
  bool findAligned() const;
  void addPlaces(bool backward);
  int unitOf(int step) const;
  int bufferOf(int buffer, int unit, int copy) const;
  bool leaves(int buffer, int copy, int a, int b) const;

  const RankExecution &execution;
  FoldedCuts at;
  double share = 1;
  bool aligned = true;
  std::vector<Place> places; ///< of the whole model, in order
  std::vector<bool> sums;    ///< by step: whether it is one of gradients
  // By buffer of the execution:
  std::vector<int> writer; ///< unit, or -1: no activation
  std::vector<int> turn;   ///< which of those that its unit makes
  std::vector<int> firstReader, lastReader; ///< units; but for sums of gradients
  /// Of a term of such a sum, the bytes of the sum; else 0. The parameter's copy in another stage
  /// has a sum of its own, and no term is sent there.
  std::vector<int64_t> sumOfTerm;
  std::vector<std::vector<int>> made; ///< buffers, by unit
};

} // namespace dtc::plan
