// `--processes`: this program starts itself once for each rank, on this machine.
//
// The parent only waits. It hands signals on, says in one line why the run has failed, and takes
// care that nothing is left. Ranks end with it, and it ends those that outlive a failure.
#pragma once

#include "dtc-rt/Status.h"

#include <optional>
#include <string>

namespace dtc::rt {

/// Runs the command line `arguments` (null-terminated) as each rank of the artifact.
Status runLocalProcesses(const std::string &artifact, char *const *arguments);

/// The way from such a rank to its parent.
class ParentLink {
public:
  /// Nothing where this process wasn't started so. From now on it ends with its parent.
  static std::optional<ParentLink> find();
  /// The parent says it, if it is why the run has failed.
  void tell(const Status &status) const;

private:
  explicit ParentLink(int descriptor) : descriptor(descriptor) {}
  int descriptor;
};

} // namespace dtc::rt
