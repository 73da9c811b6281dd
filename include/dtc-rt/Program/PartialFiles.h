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

/// Whether a partial file of `path` is locked, as its writer does it that is to be the only one.
bool isBeingWritten(const std::string &path);

/// Holds the lock of a folder while it lives; none where the name is empty, or the file system has
/// no locks.
class FolderLock {
public:
  explicit FolderLock(const std::string &folder);
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  ~FolderLock();

private:
  int descriptor = -1;
};

} // namespace dtc::rt
