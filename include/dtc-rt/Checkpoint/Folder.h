// The folder of a run's checkpoints.
//
// A checkpoint is written as step-N.partial-PID and renamed when all of it is on the disk. So a
// folder step-N is complete, and what a killed run leaves behind is known by its name.
#pragma once

#include "dtc-rt/Status.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtc::rt {

/// Held by one run: another that wants the folder is refused.
class CheckpointFolder {
public:
  /// Creates the folder where there is none, and removes what killed runs left. What was created,
  /// folders that it is in too, goes with its last owner where it is empty.
  /// ErrorCategory::Usage where another run has it.
  static Result<CheckpointFolder> claim(const std::string &path);
  /// The folder that another process of this run holds.
  static CheckpointFolder visit(const std::string &path);
  CheckpointFolder(CheckpointFolder &&other) noexcept
      : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)),
        made(std::exchange(other.made, {})), ending(std::move(other.ending)) {}
  CheckpointFolder &operator=(CheckpointFolder &&) = delete;
  ~CheckpointFolder();

  const std::string &name() const { return path; }
  std::string nameOf(int64_t step) const { return path + "/step-" + std::to_string(step); }
  /// The steps of which there are checkpoints, the newest first.
  std::vector<int64_t> steps() const;
  /// Gives a written checkpoint its name; one of the same step is replaced.
  Status commit(const std::string &partial, int64_t step) const;
  /// Removes all checkpoints but the newest; each is first given a name that says that it isn't
  /// complete any more.
  void removeAllBut(int64_t newest) const;
  /// Removes what isn't complete; nothing where another process holds the folder.
  void removePartials() const;
  /// The same while another thread may be writing. No checkpoint gets its name from now on: it may
  /// lack what was removed.
  void abandon() const;

private:
  CheckpointFolder() = default;
  std::string path;
  int descriptor = -1;
  std::vector<std::string> made; ///< it and those that it is in, where they weren't there
  struct Ending {
    std::mutex mutex;
    bool isAbandoned = false;
  };
  std::unique_ptr<Ending> ending = std::make_unique<Ending>();
};

} // namespace dtc::rt
