// What a command was asked, with what the named files say.
#pragma once

#include "dtc/Driver/Outcome.h"

#include "dtc/Driver/Options.h"
#include "dtc/Plan/Plan/Preset.h"
#include "dtc/Plan/Plan/Spec.h"

namespace dtc::driver {

/// Samples of a step, and into how many calls they are cut.
struct BatchChoice {
  int64_t globalBatch = 0, numMicrobatches = 1;
  int64_t perCall() const { return globalBatch / numMicrobatches; }
  bool operator==(const BatchChoice &) const = default;
};

struct Request {
  Options options;
  plan::Cluster cluster;
  const plan::Preset *preset = nullptr; ///< --for
  double headroom = 0;                  ///< the share of each device that plans keep free
  plan::Spec given;                   ///< by --plan and --micro-batch
  plan::Spec spec;                    ///< that, filled for the number of devices
  std::string planText;               ///< of a plan file; empty: --plan names none
  int64_t planSamples = 0;            ///< of a step that it was made for, padding included
  std::optional<int64_t> globalBatch; ///< by --global-batch or the plan file, padding included
  int64_t paddedSamples = 0; ///< of these, so that the data-parallel ranks have equally many

  /// Each setting of --for is told with what others would cost; those of --plan-from aren't.
  bool explainsSettings() const { return preset && options.planFrom.empty(); }
  bool hasPlanFile() const { return !planText.empty(); }
  /// True while the data-parallel degree, and with it the batch, isn't known.
  bool isBatchOpen() const { return !spec.dp; }
  /// Whether dtc's own program would run the plan: no other one is named, and the cluster says
  /// nothing of another one's software.
  bool isForOwnProgram() const { return !preset && cluster.software == plan::Software(); }
};

Outcome<Request> readRequest(const Options &options);

/// How features are padded that so many ranks of tensor parallelism can't share, whatever it costs
/// nothing to. GPUs read a rank's rows best 16 bytes at a time.
training::HiddenPadding hiddenPadding(int64_t ways, Target target);

/// How the batch is cut for the SPEC, whose data-parallel ranks these are, for a file that was
/// exported with `fileBatch` samples.
plan::Result<BatchChoice> chooseBatch(const Request &request, int64_t fileBatch,
                                      int64_t dataParallel);

} // namespace dtc::driver
