// What a rank did when: `dtc-run --profile FILE`.
//
// Each queue of a device notes when it carried out which operation. Times are of the machine's
// steady clock, so that ranks on one machine share them; a GPU's are set to it once. The file is a
// trace as Chromium's tracing page and Perfetto read it. It has a process for each rank, a thread
// for each queue, a slice for each instruction and step.
#pragma once

#include "dtc-rt/Device.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtc::rt {

class RankProfile;

/// As profiles name it.
const char *kindOf(const OperationSpec &spec);

/// Of one queue; written by one thread.
class QueueProfile {
public:
  explicit QueueProfile(std::string name) : name(std::move(name)) {}
  /// Beyond many slices nothing more is noted.
  void add(uint32_t operation, int64_t begin, int64_t end);

private:
  friend class RankProfile;
  struct Slice {
    uint32_t operation;
    int64_t begin, end; ///< nanoseconds
  };
  std::string name;
  std::vector<Slice> slices;
  bool isFull = false;
};

/// Of one rank.
class RankProfile {
public:
  static int64_t now();

  QueueProfile &addQueue(const std::string &name);
  /// `kind`: what the instruction does ("launch", "all_reduce"), `name`: where it comes from.
  uint32_t addOperation(const std::string &kind, const std::string &name);
  void addStep(int64_t number, int64_t begin, int64_t end) {
    steps.push_back({number, begin, end});
  }

  /// The rank's events, once its queues are idle. Rank 0 gets those of all ranks, and writes them.
  Status write(Communicator &communicator, const std::string &path) const;

private:
  struct Operation {
    std::string kind, name;
  };
  struct Step {
    int64_t number, begin, end;
  };
  std::string events(int rank) const;

  std::vector<std::unique_ptr<QueueProfile>> queues;
  std::vector<Operation> operations;
  std::vector<Step> steps;
};

} // namespace dtc::rt
