// What the ranks of a run share, and what one rank does.
#pragma once

#include "dtc-rt/DataSet.h"
#include "dtc-rt/Executor.h"
#include "dtc-rt/Metrics.h"
#include "dtc-rt/Package.h"
#include "dtc-rt/Run.h"
#include "dtc-rt/SampleOrder.h"
#include "dtc-rt/ThreadCommunicator.h"
#include "dtc-rt/Weights.h"

#include <atomic>
#include <optional>

namespace dtc::rt {

/// Read by all ranks; what is written while they run is said where it is.
struct Session {
  RunOptions options;
  std::unique_ptr<const Package> package; ///< others point into it
  std::vector<ProgramView> programs; ///< per role
  CodeObject code;
  DataSet data;
  WeightReader weights;
  SampleOrder order;
  int64_t numSteps = 1;
  std::optional<WeightWriter> weightWriter = std::nullopt;      ///< ranks write disjoint places
  std::optional<SafetensorsWriter> outputWriter = std::nullopt; ///< the same
  std::optional<MetricsReporter> metrics = std::nullopt;        ///< rank 0's
  std::atomic<bool> stop{false}; ///< written by rank 0 between two meetings of the world
  int64_t stepsDone = 0;         ///< rank 0's

  const Manifest &manifest() const { return package->manifest(); }
  bool isInference() const { return !options.outputs.empty(); }
};

/// Set by a signal handler; the run ends after the current step.
extern std::atomic<int> stopSignal;

/// One rank, on its own thread.
class RankWorker {
public:
  RankWorker(Session &session, Communicator &communicator, std::vector<int> cpus)
      : session(session), communicator(communicator), cpus(std::move(cpus)),
        program(session.programs[session.manifest().rankRoles[communicator.rank()]]) {}

  /// Everything from the arena to the saved weights.
  Status run();

private:
  Status prepare();
  void loadWeights();
  Status step(int64_t number);
  Status loadData(int64_t number);
  Status checkFinite(int64_t number) const;
  void writeScalars(int64_t number);
  void storeOutputs(int64_t number);
  Status saveWeights();
  StepMetrics measure(int64_t number, double seconds) const;

  char *at(const fbs::Ref &ref, uint32_t microbatch = 0) const {
    return arena->data() + offsetOf(ref, program->slot_stride(), fbs::Call(0, microbatch, 0));
  }
  std::optional<double> readFloat(const fbs::Ref *ref) const;
  Shard shardOf(const Dims &shape, const Sharding &sharding) const {
    return session.manifest().mesh.shard(shape, sharding, communicator.rank());
  }

  Session &session;
  Communicator &communicator;
  std::vector<int> cpus;
  ProgramView program;
  Group world;
  std::optional<ThreadTeam> team;
  std::optional<Arena> arena;
  std::optional<Executor> executor;
};

} // namespace dtc::rt
