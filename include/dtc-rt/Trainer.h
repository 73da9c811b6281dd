// The ranks of an artifact, at hand between steps: what `dtc-run` does in one go, step by step.
//
//   auto trainer = Trainer::open("gpt2.dtc", {});   // ranks are started, weights loaded
//   trainer->step(batch)->loss;                     // all ranks make one step
//   trainer->readWeights(places);
//
// The steps are those of dtc-run: with the same samples the losses are the same, bit by bit. An
// artifact without a loss (--loss none) makes no steps: `forward` gives its outputs. One caller at
// a time. Samples that are refused end no rank. After an error of a rank no more steps are made.
#pragma once

#include "dtc-rt/Files/ArrayFile.h"
#include "dtc-rt/Files/DataSet.h"
#include "dtc-rt/Metrics.h"
#include "dtc-rt/Program/Manifest.h"
#include "dtc-rt/Run.h"

#include <memory>

namespace dtc::rt {

class Trainer {
public:
  struct Options {
    uint64_t seed = 0; ///< of initial weights and of shuffling
    std::optional<double> timeoutSeconds = std::nullopt; ///< as dtc-run has it
  };
  static Result<std::unique_ptr<Trainer>> open(const std::string &artifact, const Options &options);
  /// Ends the ranks.
  ~Trainer();

  const Manifest &manifest() const;
  int64_t stepsDone() const; ///< of training

  /// A step of the global batch: an array for each input, `target` among them.
  Result<StepMetrics> step(const std::map<std::string, Array> &batch);
  /// Where `step()` takes its samples: those that dtc-run would take for a step of that number.
  Status setData(const std::string &path, bool shuffle);
  Result<StepMetrics> step();
  int64_t numSamples() const; ///< of that file; 0: there is none

  /// The mean loss of the weights as they are, on the whole global batches of a file, as
  /// `dtc-run --eval-data`; or on one of them.
  Result<double> evaluate(const std::string &path);
  Result<double> evaluate(const std::map<std::string, Array> &batch);

  /// The outputs of a global batch, of an artifact without a loss, in the manifest's order. Each
  /// has its type in the model file, and the shape that `fileShape` says of a global batch.
  Status forward(const std::map<std::string, Array> &batch, const std::vector<char *> &places);

  /// Copies each parameter and buffer, in the manifest's order, in its shape and type in the model
  /// file.
  Status readWeights(const std::vector<char *> &places);
  /// As `dtc-run --save-weights`.
  Status saveWeights(const std::string &path);
  /// Copies the artifact as it was opened, with the weights from before all steps.
  Status saveArtifact(const std::string &path);

private:
  struct Ranks;
  /// Has the ranks make a step of this batch.
  Status runOn(const std::map<std::string, Array> &batch);
  Result<double> evaluate(Result<DataSet> samples, const std::string &name);
  explicit Trainer(std::unique_ptr<Ranks> ranks);
  std::unique_ptr<Ranks> ranks;
};

} // namespace dtc::rt
