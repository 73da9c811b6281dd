// The checkpoints of a run: where it begins, and where it saves.
#pragma once

#include "dtc-rt/Checkpoint/Folder.h"
#include "dtc-rt/Checkpoint/RankFiles.h"
#include "dtc-rt/Checkpoint/Reader.h"
#include "dtc-rt/Run.h"

#include <optional>

namespace dtc::rt {

struct RunCheckpoints {
  CheckpointFiles files;
  CheckpointFolder folder;
  std::optional<CheckpointReader> resumed; ///< what the run goes on with
  std::optional<int64_t> every;            ///< steps
  std::optional<int64_t> keep;             ///< the newest so many
  std::vector<int> cpus;                   ///< of the process

  /// None without --checkpoint-dir. With --resume the newest checkpoint that is intact; damaged
  /// ones are said on stderr. Refused where there are checkpoints but none is intact, or where it
  /// is of another model, seed, or data of another number of samples.
  static Result<std::optional<RunCheckpoints>> open(const RunOptions &options,
                                                    std::span<const ProgramView> programs,
                                                    const Manifest &manifest, int64_t samples);
  /// A part of a weight or state of the checkpoint that the run goes on with.
  Status read(const fbs::Binding &binding, const Part &part, char *target) const;
  bool isDue(int64_t step) const { return every && step % *every == 0; }
};

/// Where a run begins: the checkpoint that it goes on with, or the beginning.
TrainingPoint startOf(const RunOptions &options, const std::optional<RunCheckpoints> &checkpoints,
                      int64_t samples);

} // namespace dtc::rt
