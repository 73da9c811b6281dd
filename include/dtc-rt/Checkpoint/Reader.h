// Reads a checkpoint into whatever placements the ranks of this run have.
#pragma once

#include "dtc-rt/Checkpoint/Checkpoint.h"

namespace dtc::rt {

class CheckpointReader {
public:
  /// Verifies every file of a folder step-N against its hash.
  static Result<CheckpointReader> open(const std::string &path);

  const std::string &path() const { return folder; }
  const TrainingPoint &point() const { return info.point; }
  /// Refused where the checkpoint is of another model or optimizer than `expected`, with the
  /// first tensor that differs.
  Status checkModel(const CheckpointInfo &expected) const;

  /// Fills `target` with a part of a tensor (an index of the model that was checked), as `expected`
  /// sees it, as `dtype`. For any thread.
  Status read(size_t tensor, const StoredTensor &expected, const Part &part, DType dtype,
              char *target) const;

private:
  Status verify(const StoredFile &file) const;
  std::string folder;
  CheckpointInfo info;
};

} // namespace dtc::rt
