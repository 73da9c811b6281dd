// Keeps a command from writing over what it reads.
#pragma once

#include "dtc-rt/Status.h"

#include <span>
#include <string>

namespace dtc::rt {

/// A file that a command reads or writes, and how the user said it: "--data", "the model".
struct NamedFile {
  std::string name, path;
};

/// ErrorCategory::Usage where an output is an input or another output, under whatever path (links
/// are followed). An empty path is none. Devices and pipes may be written twice.
Status checkOutputConflicts(std::span<const NamedFile> inputs, std::span<const NamedFile> outputs);

/// ErrorCategory::Failed where there is no folder that an output could be made in: hours of work
/// shall not end so.
Status checkOutputFolders(std::span<const NamedFile> outputs);

} // namespace dtc::rt
