// What every device must do, whatever its target: these tests see Device.h alone.
//
// A target registers itself with a platform and with code that has the kernels of
// ../TestKernels.c ("add", "count"):
//
//   RegisterTarget cpu({"CPU", createCpuPlatform, "kernels.so", readKernels});
//
// Where this machine lacks what a target needs, its tests are skipped and say why.
//
// A test runs a function on the ranks of a world, each with a device of its own:
//
//   TEST_P(Conformance, ...) {
//     onRanks(2, [](Rank &rank) { ...; return rank.queue(0).synchronize(); });
//   }
#pragma once

#include "dtc-rt/Device.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dtc::rt::conformance {

struct Target {
  std::string name;
  std::function<std::unique_ptr<Platform>()> createPlatform;
  std::string codeName; ///< of the file with the kernels
  std::function<std::string()> code;
  /// What so many ranks need and this machine lacks; empty: nothing.
  std::function<std::string(int)> whySkipped = {};
  bool hasConvolutions = true;
  bool hasAttention = false;   ///< as one call
  bool hasEpilogues = false;   ///< of products; and calls that add to a tensor
  bool dropsIssuedWork = true; ///< that it has not begun, once the run has failed

  friend void PrintTo(const Target &target, std::ostream *out) { *out << target.name; }
};

/// A launch that does `extent` iterations, on processors or on a GPU.
LaunchSpec launchOf(const std::string &kernel, size_t numArguments, uint64_t extent, uint64_t grain,
                    uint64_t scratch);

const std::vector<Target> &targets();
struct RegisterTarget {
  explicit RegisterTarget(Target target);
};

/// A rank's device with an arena of floats, and its queues.
class Rank {
public:
  Rank(Device &device, Communicator &communicator) : device(device), communicator(communicator) {}

  int number() const { return communicator.rank(); }
  /// Makes the queues of these kinds, and the arena.
  Status begin(std::vector<QueueKind> kinds, uint64_t arenaBytes = 1 << 20);
  Queue &queue(size_t index) { return *queues[index]; }
  Address at(uint64_t offset) const { return arena->base() + offset; }

  Status put(uint64_t offset, const std::vector<float> &values);
  std::vector<float> get(uint64_t offset, size_t count);
  /// Prepares an operation that isn't issued. Ranks that wait for each other crosswise prepare
  /// all of their operations first and say that they have, as the executor does.
  Status prepare(size_t queue, const OperationSpec &spec);
  /// Prepares an operation, which lives as long as the rank, and issues it.
  Status issue(size_t queue, const OperationSpec &spec, const std::vector<uint64_t> &offsets,
               const std::string &name = "op");
  Status copy(size_t queue, uint64_t from, uint64_t to, uint64_t bytes);
  /// target = a + b, elementwise.
  Status add(size_t queue, uint64_t a, uint64_t b, uint64_t target, uint64_t count);
  Status send(size_t queue, int peer, uint64_t offset, uint64_t bytes);
  Status receive(size_t queue, int peer, uint64_t offset, uint64_t bytes);
  /// `after` waits for what was issued to `before` so far.
  void order(size_t before, size_t after);
  Status synchronizeAll();
  void end() { queues.clear(); }

  Device &device;
  Communicator &communicator;

private:
  std::unique_ptr<Memory> arena;
  std::vector<std::unique_ptr<Event>> events;
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<std::unique_ptr<Queue>> queues; ///< destroyed first: they use the others
};

class Conformance : public testing::TestWithParam<Target> {
protected:
  using Body = std::function<Status(Rank &)>;
  void SetUp() override;
  /// What this machine lacks for so many ranks; empty: nothing.
  static std::string lackOf(int ranks);
  /// Statuses by rank; a rank that fails aborts the run.
  std::vector<Status> statusesOf(int ranks, const Body &body,
                                 std::chrono::milliseconds timeLimit = std::chrono::seconds(20),
                                 int threads = 1);
  /// The same, of ranks that must all succeed. Where the machine lacks what they need, the test is
  /// skipped.
  void onRanks(int ranks, const Body &body, int threads = 1);
};

/// Begins a test of so many ranks.
#define DTC_NEEDS_RANKS(ranks)                                                                     \
  if (std::string why = lackOf(ranks); !why.empty())                                               \
  GTEST_SKIP() << why

/// Returns from a body where a call fails.
#define DTC_TRY(call)                                                                             \
  do {                                                                                            \
    if (Status status = (call); !status.isOk())                                                   \
      return status;                                                                              \
  } while (false)

} // namespace dtc::rt::conformance
