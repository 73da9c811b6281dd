// Which rank writes what into a checkpoint, from the placements of all roles' programs.
#pragma once

#include "dtc-rt/Checkpoint/Checkpoint.h"
#include "dtc-rt/Program/ProgramView.h"

#include <span>

namespace dtc::rt {

/// Which state of its weight a binding is; none: the weight itself.
std::string stateOf(const fbs::Binding &binding);

/// What a rank writes: elements of a binding, and where in its file they go.
struct OwnedPart {
  const fbs::Binding *binding;
  Part part;
  uint64_t at = 0; ///< in bytes
};

/// A rank's file.
struct RankFile {
  std::string header;           ///< the elements follow
  std::vector<OwnedPart> parts; ///< in the order of the file, without gaps
};

/// A weight is what its master copy holds, where there is one. The first role that has a tensor
/// writes it.
struct CheckpointFiles {
  CheckpointInfo info; ///< but for the point and the hashes
  std::vector<RankFile> ranks;

  /// The programs must outlive the files.
  static Result<CheckpointFiles> of(std::span<const ProgramView> programs,
                                    const Manifest &manifest);
  uint64_t bytesOf(int rank) const { return info.files[rank].size - ranks[rank].header.size(); }
};

} // namespace dtc::rt
