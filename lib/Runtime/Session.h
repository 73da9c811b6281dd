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

#include "StepPipeline.h"

#include <atomic>
#include <optional>

namespace dtc::rt {

/// The roles whose ranks speak for all that hold the same; -1: none does.
struct Speakers {
  std::vector<int> parameters, outputs; ///< in the manifest's order
  int loss = -1, gradNorm = -1;
};

/// Read by all ranks; what is written while they run is said where it is.
struct Session {
  RunOptions options;
  std::unique_ptr<const Package> package; ///< others point into it
  std::vector<ProgramView> programs; ///< per role
  Speakers speakers;
  std::unique_ptr<Platform> platform;
  DataSet data;
  WeightReader weights;
  SampleOrder order;
  int64_t numSteps = 1;
  std::optional<WeightWriter> weightWriter = std::nullopt;      ///< ranks write disjoint places
  std::optional<SafetensorsWriter> outputWriter = std::nullopt; ///< the same
  std::optional<MetricsReporter> metrics = std::nullopt;        ///< rank 0's
  std::atomic<bool> stop{false}; ///< written by rank 0 between two meetings of the world
  int64_t stepsDone = 0;         ///< rank 0's
  /// Of the last step, written before a meeting of the world by the first rank of the role that
  /// speaks for it, and read after it.
  std::optional<double> loss = std::nullopt, gradNorm = std::nullopt;

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
        place(session.manifest().roleOf(communicator.rank())),
        program(session.programs[place.first]), mesh(meshOf(*program)) {}

  /// Everything from the arena to the saved weights.
  Status run();

private:
  /// What a step takes: a binding, for one microbatch.
  struct StepInput {
    const fbs::Binding *binding;
    uint32_t microbatch = 0;
  };

  Status prepare();
  Status runSteps();
  Status loadWeights();
  Status createPipeline();
  /// A step is issued. Its results are looked at when the next one is under way.
  Status issue(int64_t number);
  Status finish(int64_t number);
  /// Finishes a step, none where it is 0, meets the others, and writes the log.
  Status conclude(int64_t number);
  Status writeBatch(int64_t number, size_t index, const StepInput &input);
  Status writeScalar(int64_t number, size_t index, const fbs::Binding &scalar);
  Status lookAt(int64_t number, size_t result);
  Status storeOutputs(int64_t number);
  Status storeOutput(const fbs::Binding &binding, size_t output, int64_t number,
                     uint32_t microbatch);
  Status saveWeights();
  StepMetrics measure(int64_t number, double seconds) const;

  Address at(const fbs::Binding &binding, uint32_t microbatch = 0) const {
    const Memory &from = binding.ref()->space() == Space::Host ? *hostArena : *arena;
    return from.base() + offsetOf(*binding.ref(), fbs::Call(0, microbatch, 0, 0, 0));
  }
  /// Bytes of what the rank has of a binding: the whole part of a bucket.
  static uint64_t bytesOf(const fbs::Binding &binding) {
    return static_cast<uint64_t>(product(dimsOf(binding.local_shape())) *
                                 sizeOf(dtypeOf(binding.dtype())));
  }
  Part partOf(const fbs::Binding &binding) const {
    return mesh.part(dimsOf(binding.shape()), placementOf(binding),
                     static_cast<int64_t>(place.second));
  }
  bool speaksFor(int role) const { return role == static_cast<int>(place.first); }

  Session &session;
  Communicator &communicator;
  std::vector<int> cpus;
  std::pair<size_t, size_t> place; ///< role, and position in it
  ProgramView program;
  RankMesh mesh;
  Group world;
  std::unique_ptr<Device> device;
  std::unique_ptr<Memory> arena, hostArena;
  std::chrono::steady_clock::time_point lastFinished;

  std::vector<StepInput> stepInputs; ///< in the pipeline's order, likewise below
  std::vector<const fbs::Binding *> stepResults;
  std::optional<StepPipeline> pipeline;
  std::optional<Executor> executor; ///< destroyed first: its queues may be at work
};

} // namespace dtc::rt
