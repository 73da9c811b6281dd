// Writes a rank's share of checkpoints while training goes on.
//
//   rank 0   step 10 | copy | step 11 | step 12 | ...
//   rank 1   step 10 | copy | step 11 | step 12 | ...
//   aside          write, sync | meet | rank 0: manifest, rename
//
// Training waits only for the copy, and for the checkpoint before if that isn't on the disk yet.
// What writes gives way to all that wants a processor. If any rank can't write (the disk is
// full), none of the checkpoint stays, and those before are as they were.
#pragma once

#include "dtc-rt/Checkpoint/Folder.h"
#include "dtc-rt/Checkpoint/RankFiles.h"
#include "dtc-rt/Communicator.h"
#include "dtc-rt/Device.h"

#include <future>

namespace dtc::rt {

class CheckpointWriter {
public:
  /// What it writes, and where; outlives the writer.
  struct Target {
    const CheckpointFiles &files;
    const CheckpointFolder &folder;
    std::vector<int> cpus; ///< that it may use
    std::optional<int64_t> keep; ///< the newest so many checkpoints
  };

  /// Takes the memory of the copy. `sources` are the addresses of the parts that the files have
  /// for this rank. Call on the rank's thread, as all of this.
  static Result<std::unique_ptr<CheckpointWriter>> create(const Target &target,
                                                          Communicator &communicator,
                                                          Device &device,
                                                          std::vector<Address> sources);

  /// Copies what there is after a step; it is written when this has returned. Whether the one
  /// before could be written is said on stderr, and doesn't matter here.
  Status save(const TrainingPoint &point);
  /// Waits; how the last one ended.
  Status finish();

private:
  CheckpointWriter(const Target &target, Communicator &communicator, Device &device,
                   std::vector<Address> sources);
  Status copy();
  Status write(const TrainingPoint &point) const;
  Status writeAside(const TrainingPoint &point) const;
  Result<std::string> createPartial(int64_t step) const;
  Result<std::string> writeShard(const std::string &folder) const;
  Status commit(const std::string &partial, CheckpointInfo info) const;

  Target target;
  Device &device;
  std::vector<Address> sources;
  std::unique_ptr<Communicator> communicator;
  RankGroup world;
  std::unique_ptr<Memory> memory; ///< the elements of the rank's file
  std::future<Status> writing;
  Status last = Status::ok();
};

} // namespace dtc::rt
