// The loss on data that is not trained on (`--eval-data`), between two steps.
//
//   step         prologue, clear, loss_and_grads ..., update
//   evaluation   prologue, clear, loss_and_grads ...            for each batch
//
// The calls in front of the update leave the sum of the losses on the ranks, as terms, whatever
// the plan is. Of what training keeps they only read: that is checked when the run begins.
#pragma once

#include "dtc-rt/Files/DataSet.h"
#include "dtc-rt/Program/ProgramView.h"
#include "dtc-rt/Run.h"

namespace dtc::rt {

/// What all ranks of a process share of it.
struct Evaluation {
  DataSet data;
  std::optional<int64_t> every; ///< steps; else after the last one alone
  int64_t numBatches = 0;

  /// None where the options ask for none.
  static Result<std::optional<Evaluation>> open(const RunOptions &options,
                                                const std::vector<ProgramView> &programs,
                                                const Manifest &manifest);
  /// `name` is what a refusal names.
  static Result<Evaluation> of(DataSet data, const std::string &name,
                               const std::vector<ProgramView> &programs, const Manifest &manifest);
  bool isDue(int64_t step, int64_t lastStep) const {
    return step == lastStep || (every && step % *every == 0);
  }
};

/// Where a rank has its term of the sum of losses, and how many targets that sum has. Null where
/// another rank tells the same.
struct LossTerm {
  const fbs::Binding *loss = nullptr, *count = nullptr;
  static LossTerm of(const ProgramView &program, size_t position);
};

} // namespace dtc::rt
