// The phases of a compilation: functions from a value to a value.
//
//     readRequest   ->  Request        what the options mean, with the files that they name
//     importModel   ->  Imported       @forward
//     buildTraining ->  Trained        @loss_and_grads, @update
//     makePlan      ->  Planned        the same with shardings; the problem and its plan
//     partition     ->  Partitioned    local shapes, collectives; a module for each pipeline rank
//     schedule      ->  Scheduled      kernels, the list of calls, memory
//     lower         ->  Lowered        machine code
//     package                          the artifact
//
// A phase takes the value of the phase before and gives its own, which has all of that and
// what the phase found. The IR moves along. A phase that fails has printed why.
#pragma once

#include "Request.h"

#include "dtc/Package/Package.h"
#include "dtc/Pipelines/Pipelines.h"
#include "dtc/Plan/Explain/Explain.h"
#include "dtc/Plan/Plan/PlanFile.h"
#include "dtc/Target/Target.h"

#include "mlir/IR/MLIRContext.h"

namespace dtc::driver {

/// What all phases of a command use. The IR of its values lives in the context.
struct Environment {
  explicit Environment(const Options &options);

  const target::Target *target;
  mlir::MLIRContext context;
  DiagnosticPrinter printer;
};

struct Imported {
  import::ImportedModel model;
  BatchChoice batch;

  mlir::ModuleOp module() { return *model.module; }
};

struct Trained : Imported {
  int64_t vocabulary = 0; ///< of the token input; 0: none
  std::map<std::string, std::string> traits = {}; ///< ModelTraits.h
};

/// A plan with the problem that names its ops.
struct PlanToSave {
  plan::Plan plan;
  plan::Problem problem;
};

struct Planned : Trained {
  plan::Problem problem;
  std::unique_ptr<plan::Workspace> workspace; ///< null: not measured
  plan::SearchResult search;
  std::optional<plan::Explanation> explanation; ///< of the plan as it was searched; --explain
  std::optional<PlanToSave> toSave =
      std::nullopt; ///< for --save-plan, where calls are searched uncut
  plan::Dimensions padded = {}; ///< of parameters: where the step has more than files
  int64_t paddedSamples = 0;    ///< of a step, beside those that it reads
  double planningSeconds = 0;
};

struct Partitioned : Planned {
  std::string verified;                ///< what was verified, or why not; empty: neither was asked
  std::vector<std::string> parameters; ///< and buffers, in the order of the model
};

struct Scheduled : Partitioned {
  /// Kernels on their way to machine code; null where none is asked for.
  std::unique_ptr<target::KernelCompilation> kernels;
};

struct Lowered : Scheduled {
  target::CodeObject code;
};

/// Every parameter's data: from the model file, --weights or --init.
struct Weights {
  WeightStore store;
  std::map<std::string, package::Distribution> init; ///< of parameters without data
};

/// Opens the model file, which gives its graph for any number of samples.
Outcome<std::unique_ptr<import::ModelFile>> openModel(Environment &env, const Options &options);

/// Of a call, and of its step without what pads it.
import::Samples samplesIn(const Request &request, const BatchChoice &cut);

Outcome<Imported> importModel(const Request &request, const import::ModelFile &file);

/// `slots`: the ranks of the plan that share experts or sequences, as far as the program has to be
/// built for them (slotsFor).
Outcome<Trained> buildTraining(const Options &options, Imported imported,
                               pipelines::SlotsPipeline slots);
/// Both phases, with the slots that the SPEC asks for.
Outcome<Trained> importForTraining(const Request &request, const import::ModelFile &file);

/// What dtc's own program needs of experts that rows look up. Plans for other programs take it that
/// all are chosen equally often, and need no slots unless a capacity is asked for.
pipelines::SlotsPipeline slotsFor(const Options &options, bool isForOwnProgram,
                                  const plan::Degrees &degrees);
pipelines::SlotsPipeline slotsFor(const Request &request, const plan::Degrees &degrees);
pipelines::SlotsPipeline slotsFor(const Request &request, const plan::Spec &spec);

/// Whether kernels of the target multiply tiles of slots (capacity=tiles).
bool multipliesTiles(const Options &options);

/// Refuses, before any long work, what could be planned but not compiled. Where an artifact is
/// asked for, gives its weights; those of the model file are moved there.
Outcome<Weights> prepareToCompile(const Environment &env, const Options &options, Trained &trained);

/// The problem that would be planned.
Outcome<plan::Problem> extractProblem(const Environment &env, const Options &options,
                                      Trained &trained);

/// Plans, and writes the plan into the IR where one module can say it. The file is asked again
/// for the batch as the plan cuts it.
Outcome<Planned> makePlan(Environment &env, const Request &request, const import::ModelFile &file,
                          Trained trained);

Outcome<Partitioned> partition(const Options &options, Planned planned);

/// Kernels start to be compiled, beside what follows, unless --emit ends here.
Outcome<Scheduled> schedule(Environment &env, const Options &options, Partitioned partitioned);

/// Waits for the kernels' machine code.
Outcome<Lowered> lower(Scheduled scheduled);

/// Writes the artifact; takes the kernels' code when it gets there.
Failure package(const Environment &env, const Options &options, Scheduled &scheduled,
                const Weights &weights);

} // namespace dtc::driver
