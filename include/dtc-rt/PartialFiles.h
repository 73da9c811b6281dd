// What is left of files that a killed process had not finished.
//
// A file is written as FILE.partial-PID and renamed when it is complete. A process that is killed
// leaves the partial file behind; the next one that writes FILE removes it.
#pragma once

#include <string>

namespace dtc::rt {

/// Removes the partial files of `path` whose processes are gone. Those of processes that
/// live stay, and so does what can't be removed.
void removeAbandonedPartials(const std::string &path);

} // namespace dtc::rt
