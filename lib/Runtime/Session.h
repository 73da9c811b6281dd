// What the ranks of a run share, and what one rank does.
#pragma once

#include "dtc-rt/Checkpoint/RunCheckpoints.h"
#include "dtc-rt/Checkpoint/Writer.h"
#include "dtc-rt/Executor.h"
#include "dtc-rt/Files/DataSet.h"
#include "dtc-rt/Files/SampleOrder.h"
#include "dtc-rt/Files/Weights.h"
#include "dtc-rt/Metrics.h"
#include "dtc-rt/Profile.h"
#include "dtc-rt/Program/Package.h"
#include "dtc-rt/Run.h"

#include "Evaluation.h"
#include "LostRows.h"
#include "RankRequests.h"
#include "StepPipeline.h"
#include "StepWatch.h"

#include <atomic>
#include <functional>
#include <optional>

namespace dtc::rt {

/// The roles whose ranks speak for all that hold the same; -1: none does.
struct Speakers {
  std::vector<int> parameters, outputs; ///< in the manifest's order
  int loss = -1, gradNorm = -1, nonFinite = -1;
};

/// Where the outputs of some samples are put together.
struct OutputPlaces {
  std::vector<char *> data; ///< in the manifest's order
  int64_t since = 0;        ///< the step before the first one whose outputs they take
  int64_t samples = 0;
};

/// Read by all ranks of a process; what is written while they run is said where it is.
struct Session {
  RunOptions options;
  std::unique_ptr<const Package> package; ///< others point into it
  std::vector<ProgramView> programs; ///< per role
  Speakers speakers;
  std::unique_ptr<Platform> platform;
  DataSet data;
  WeightReader weights;
  SampleOrder order;
  TrainingPoint start;                       ///< after which the run begins
  std::optional<RunCheckpoints> checkpoints; ///< none: it saves none
  std::optional<Evaluation> evaluation;      ///< none: nothing is evaluated
  int64_t numSteps = 1;
  /// Rank 0's, and written by it alone.
  std::optional<WeightWriter> weightWriter = std::nullopt;
  std::optional<SafetensorsWriter> outputWriter = std::nullopt;
  OutputPlaces outputs = {};
  std::optional<MetricsReporter> metrics = std::nullopt;
  int64_t stepsDone = 0;            ///< when all ranks have ended, likewise below
  int stoppedBy = 0;                ///< a signal; 0: all steps were done
  StepMetrics lastStep = {};        ///< rank 0's
  double evalLoss = 0;              ///< of the last evaluation that was asked for
  RankRequests *requests = nullptr; ///< null: numSteps steps are made in one go

  const Manifest &manifest() const { return package->manifest(); }
  bool isInference() const { return manifest().loss == LossKind::None; }
  bool savesWeights() const { return !options.saveWeights.empty(); }
  /// Where the run is after a step.
  TrainingPoint pointAfter(int64_t step) const {
    TrainingPoint point = start;
    point.position += (step - start.step) * manifest().globalBatch;
    point.step = step;
    return point;
  }
};

/// Without data where the options name none.
Result<std::unique_ptr<Session>> openSession(RunOptions options);

/// The ranks that run on this machine.
std::vector<int> ranksOfMachine(const RunOptions &options, const Manifest &manifest);

/// Ends the weight writer, if there is one, when all ranks have put theirs in.
Status saveResults(Session &session);

/// Cores of each rank of this process where the machine has enough for all its ranks; else the
/// system decides.
std::vector<std::vector<int>> divideCpus(const Session &session, const World &world);

/// Set by a signal handler; the run ends after a step, on all ranks after the same one.
extern std::atomic<int> stopSignal;

/// What the ranks tell each other when a step is done. Those that don't speak for something
/// tell nothing.
struct StepNews {
  std::optional<double> loss, gradNorm, nonFinite, lossScale, skippedSteps, evalLoss;
  std::optional<double> lostRows; ///< which all ranks know without being told
  int stopSignal = 0;

  using Number = std::optional<double> StepNews::*;
  /// Those that a step's program gives.
  static constexpr Number kGiven[] = {&StepNews::loss, &StepNews::gradNorm, &StepNews::nonFinite,
                                      &StepNews::lossScale, &StepNews::skippedSteps};
  /// Which of them a binding is, or null.
  static Number numberOf(const fbs::Binding &binding);
};

/// One rank, on its own thread.
class RankWorker {
public:
  RankWorker(Session &session, Communicator &communicator, std::vector<int> cpus)
      : session(session), communicator(communicator), cpus(std::move(cpus)),
        place(session.manifest().roleOf(communicator.rank())),
        program(session.programs[place.first]), mesh(meshOf(*program)), watch(communicator) {}

  /// Everything from the arena to the saved weights.
  Status run();
  /// The last step, and the signal that ended the run before all steps were done; else 0.
  int64_t stepsDone() const { return concluded; }
  int stoppedBy() const { return news.stopSignal; }

private:
  /// What a step takes: a binding, for one microbatch.
  struct StepInput {
    const fbs::Binding *binding;
    uint32_t microbatch = 0;
  };

  Status prepare();
  Status runSteps();
  /// Makes steps and saves weights as it is asked to.
  Status serveRequests();
  RankRequests::Request nextRequest();
  /// From now on this rank says in which step it is.
  void beginWatch();
  Status loadWeights();
  /// Fills a weight or state with what it is at the start.
  Status load(const fbs::Binding &binding);
  Status createCheckpointWriter();
  Result<std::unique_ptr<Device>> createDevice();
  Status createPipeline();
  /// A step is issued. Its results are looked at when the next one is under way.
  Status issue(int64_t number);
  Status finish(int64_t number);
  /// Finishes a step, meets the others, and writes the log.
  Status conclude(int64_t number);
  /// The same of all steps that are issued, up to this one; meets the others in any case.
  Status concludeUpTo(int64_t number);
  Status saveCheckpoint();
  /// What is left when all steps are issued.
  Status finishRun();
  /// Where a global batch is read.
  struct Samples {
    const DataSet &data;
    SampleOrder order;
    int64_t position; ///< of its first sample, in the order
    bool isEvaluated = false;
  };
  /// All that a step, or an evaluation after it, is given.
  Status writeInputs(int64_t number, const Samples &samples);
  Status writeBatch(int64_t number, size_t index, const Samples &samples);
  Status writeKeys(int64_t number, size_t index, const fbs::Binding &keys, int64_t first,
                   bool isEvaluated);
  Status writeScalar(int64_t number, size_t index, const fbs::Binding &scalar, bool isEvaluated);
  /// Checks a step's results, and tells those that this rank speaks for.
  Status lookAtResults(int64_t number);
  Status checkNumbers(int64_t number, const StepNews &seen) const;
  /// The role that tells a number.
  int speakerOf(StepNews::Number number) const;
  Result<double> readResult(int64_t number, size_t result) const;
  /// Of each layer, on this rank, after the last call that was issued.
  Result<std::vector<double>> readLostRows();
  /// Called on all ranks after the same step, or evaluation.
  Status refuseLostRows(const std::string &when, const std::vector<double> &byLayer);
  /// Tells the other ranks `own`, and puts together in `news` what all say.
  Status exchangeNews();
  /// A few numbers of each rank, one after another.
  Result<std::vector<double>> tellAll(std::span<const double> mine);
  bool isEvaluated(int64_t step) const {
    return session.evaluation && session.evaluation->isDue(step, session.numSteps);
  }
  /// After the last step that was issued; `news` then has the loss, unless the run is stopped
  /// meanwhile.
  Status evaluate(int64_t number);
  static constexpr size_t kLossTermItems = 4;
  Result<std::vector<double>> evaluateBatch(int64_t number, int64_t batch);
  Status storeOutputs(int64_t number);
  void storeOutput(size_t output, DType dtype, const Part &part, int64_t first, const char *source);
  Status saveWeights();
  /// Brings what the ranks of a role hold of a tensor to rank 0, which stores each part once.
  /// All ranks make the same calls.
  using Store = std::function<void(const Part &, const char *)>;
  Status collect(size_t role, const fbs::Binding &binding, uint32_t microbatch, const Store &store);
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
  /// Whether it is read from the data, or made for each sample of it.
  static bool isData(const fbs::Binding &binding) {
    return binding.kind() == fbs::BindingKind::Input || binding.kind() == fbs::BindingKind::Target;
  }
  Part partOf(const fbs::Binding &binding) const {
    return mesh.part(dimsOf(binding.shape()), placementOf(binding),
                     static_cast<int64_t>(place.second));
  }
  bool speaksFor(int role) const { return role == static_cast<int>(place.first); }
  bool leads() const { return communicator.rank() == 0; }

  Session &session;
  Communicator &communicator;
  std::vector<int> cpus;
  std::optional<RankProfile> profile; ///< outlives the device
  std::pair<size_t, size_t> place; ///< role, and position in it
  ProgramView program;
  RankMesh mesh;
  RankGroup world;
  StepWatch watch;
  std::unique_ptr<Device> device;
  std::unique_ptr<Memory> arena, hostArena;
  std::chrono::steady_clock::time_point lastFinished;
  StepNews own, news;
  LostRows lost;
  std::vector<double> lostByLayer;              ///< in the step that was looked at last
  int64_t issued = 0, concluded = 0, saved = 0; ///< steps
  std::vector<char> collected;                  ///< rank 0's: a part of another rank

  std::vector<StepInput> stepInputs; ///< in the pipeline's order, likewise below
  std::vector<const fbs::Binding *> stepResults;
  std::optional<StepPipeline> pipeline;
  std::unique_ptr<CheckpointWriter> checkpointWriter;
  std::optional<Executor> executor; ///< destroyed first: its queues may be at work
};

/// Its run, whatever is thrown.
Status runWorker(RankWorker &worker);

} // namespace dtc::rt
