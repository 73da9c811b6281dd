#include "Request.h"

#include "Calibration/OwnCluster.h"
#include "Flags/Configured.h"
#include "Flags/OutputFiles.h"

#include "dtc-io/InputFile.h"
#include "dtc/Driver/FlagWords.h"
#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/PlanFile.h"
#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Plan/Plan/TF32.h"
#include "dtc/Plan/Plan/TextFile.h"

#include "llvm/ADT/bit.h"

#include <algorithm>

namespace dtc::driver {

using plan::Error;
using plan::Result;

/// What a plan file's degrees say is pinned, the batch and its microbatches too.
static Result<plan::Spec> specOfPlanFile(Request &request) {
  const Options &options = request.options;
  Result<std::string> text = plan::readText(options.plan, "plan");
  if (!text)
    return text.error();
  request.planText = std::move(*text);
  auto degrees = plan::degreesFromYaml(request.planText, options.plan);
  if (!degrees)
    return degrees.error();
  plan::Spec spec = plan::pinned(*degrees, {});
  if (std::string reason = plan::whyNoLimit(spec); !reason.empty())
    return Error{options.plan + ": " + reason, ErrorCategory::Usage};
  if (!plan::fill(spec, options.devices) || degrees->devices() != options.devices)
    return Error{options.plan + ": made for another number of devices than " +
                     std::to_string(options.devices),
                 ErrorCategory::Usage};
  // No factor is above kMostDegree, so no product of three of them overflows.
  int64_t calls = degrees->microBatch * degrees->numMicrobatches;
  if (calls > plan::kMostDegree / (degrees->dp * degrees->ep))
    return Error{options.plan + ": its batch is out of range"};
  const int64_t samples = degrees->dp * degrees->ep * calls;
  auto padded = plan::paddedSamples(request.planText, options.plan);
  if (!padded)
    return padded.error();
  if (*padded >= samples)
    return Error{options.plan +
                 ": padded_samples leaves none of a step: " + std::to_string(*padded)};
  if (!request.globalBatch)
    request.globalBatch = samples - *padded;
  request.planSamples = samples;
  auto isAlone = plan::hasDegreesAlone(request.planText, options.plan);
  if (!isAlone)
    return isAlone.error();
  if (*isAlone)
    request.planText.clear(); // a SPEC, then
  return spec;
}

/// What is left of each device for a plan.
static void keepFree(plan::Cluster &cluster, double share) {
  cluster.device.memoryBytes *= 1 - share;
  for (plan::NodeGroup &group : cluster.others)
    group.device.memoryBytes *= 1 - share;
}

/// The cluster as the program of --for uses it.
static Result<plan::Cluster> clusterFor(const Options &options, const plan::Preset &preset) {
  auto software = preset.software.find(wordOf(kPrecisions, options.train.precision));
  if (software == preset.software.end())
    return Error{preset.title + " isn't planned for this --precision", ErrorCategory::Usage};
  return plan::loadClusterFor(options.cluster, software->second);
}

/// Kernels are made for sm_80 and newer, which have TF32.
static std::string whyTooOld(const Options &options, const plan::Cluster &cluster) {
  const bool tf32 = options.train.precision == training::Precision::TF32;
  const bool compiles = options.target == Target::CUDA && !options.onlyPlan;
  if (!compiles && !tf32)
    return "";
  std::vector<const plan::DeviceSpec *> devices = {&cluster.device};
  for (const plan::NodeGroup &group : cluster.others)
    devices.push_back(&group.device);
  for (const plan::DeviceSpec *device : devices)
    if (device->architecture == plan::Architecture::Volta)
      return "--cluster " + options.cluster +
             (tf32
                  ? ": --precision tf32 needs tensor cores that its " + device->name + " hasn't got"
                  : ": dtc plans for its " + device->name +
                        ", but compiles for GPUs of sm_80 and newer");
  return "";
}

/// Who names no cluster and compiles for this processor has it measured.
static Outcome<plan::Cluster> clusterOf(const Options &options, const plan::Preset *preset) {
  if (options.target == Target::CPU && !options.given.contains("--cluster"))
    return ownCluster(!options.onlyPlan && options.until >= Phase::Plan);
  auto cluster = preset ? clusterFor(options, *preset) : plan::loadCluster(options.cluster);
  if (!cluster)
    return fail(cluster.error());
  if (std::string why = whyTooOld(options, *cluster); !why.empty())
    return fail(Error{why, ErrorCategory::Usage});
  return std::move(*cluster);
}

/// Adds what --plan-from says; what is wrong, or "".
static std::string addRead(const plan::Spec &read, plan::Spec &spec) {
  for (const plan::Setting &setting : plan::settings()) {
    auto said = plan::pinnedValue(setting, read), asked = plan::pinnedValue(setting, spec);
    if (!said)
      continue;
    if (asked && *asked != *said)
      return std::string("--plan ") + setting.name + "=" + *asked + " contradicts " + setting.name +
             "=" + *said + " of --plan-from";
    plan::pinValue(setting, *said, spec);
  }
  return "";
}

/// To what dtc's own program pads the classes. GPUs read rows of 64 halves best, and powers of two
/// divide 64; few clusters have a number of devices with another factor.
static int64_t classMultiple(const Request &request) {
  constexpr int64_t kLeast = 64, kMostOther = 16;
  const Options &options = request.options;
  if (!request.isForOwnProgram() || (options.target == Target::CPU && options.devices == 1))
    return 1;
  const int64_t other = options.devices >> llvm::countr_zero(uint64_t(options.devices));
  return kLeast * (other <= kMostOther ? other : 1);
}

training::HiddenPadding hiddenPadding(int64_t ways, Target target) {
  training::HiddenPadding padding;
  padding.ways = ways;
  padding.multiple = target == Target::CUDA && ways > 1 ? 8 * ways : ways;
  return padding;
}

/// For dtc's own program. A plan that was saved without padding has it without.
static Result<training::HiddenPadding> hiddenPadding(const Request &request) {
  const int64_t ways = request.isForOwnProgram() ? request.spec.tp.value_or(1) : 1;
  training::HiddenPadding padding = hiddenPadding(ways, request.options.target);
  if (ways == 1 || request.planText.empty())
    return padding;
  auto padded = plan::paddedDimensions(request.planText, request.options.plan);
  if (!padded)
    return padded.error();
  padding.among = std::move(*padded);
  padding.isPriced = true; // when it was made
  return padding;
}

/// Names the file that says what can't be planned: a configuration, or settings of a program.
static Error saidIn(const Options &options, Error error) {
  auto configured = options.configured.find("--plan");
  if (configured != options.configured.end() && !isPlanFile(options.plan))
    return Error{configured->second + ": " + error.message};
  return options.readFrom.empty() ? error : Error{options.readFrom + ": " + error.message};
}

/// What a plan of the forward pass alone can't keep of its pins; nothing where it can.
static std::optional<Error> whyNotForward(const Options &options, const plan::Spec &spec) {
  std::string pin = plan::pinOfTraining(spec);
  if (options.train.loss != training::LossKind::None || pin.empty())
    return std::nullopt;
  const std::string where = isPlanFile(options.plan) ? options.plan + ": " : "plan: ";
  return Error{where + pin + " is for training, not for --loss none", ErrorCategory::Usage};
}

/// Where ranks are given that can't share the batch, a few samples more have no targets. Others'
/// programs don't do so, nor losses without targets that may be ignored. Rows that find no slot
/// are counted of all samples.
static void padBatch(Request &request) {
  const plan::Spec &spec = request.spec;
  const bool mayLoseRows = spec.capacity && spec.capacity->factor > 0;
  if (!request.globalBatch || !spec.dp || mayLoseRows || !request.isForOwnProgram() ||
      request.options.train.loss != training::LossKind::CrossEntropy)
    return;
  const int64_t each = *spec.dp * spec.ep.value_or(1) * spec.microBatch.value_or(1);
  request.paddedSamples = (each - *request.globalBatch % each) % each;
  *request.globalBatch += request.paddedSamples;
}

/// A file that names ops has them for one cut of one batch.
static std::optional<Error> whyOtherBatch(const Request &request) {
  if (!request.hasPlanFile() || request.globalBatch == request.planSamples)
    return std::nullopt;
  const std::string &file = request.options.plan;
  auto padded = plan::paddedSamples(request.planText, file);
  if (!padded)
    return padded.error();
  const int64_t was = request.planSamples - *padded;
  const int64_t asked = *request.globalBatch - request.paddedSamples;
  if (was == asked) // of another loss or program, or as somebody wrote it
    return Error{file + ": padded_samples is " + std::to_string(*padded) +
                 ", but these flags pad the batch by " + std::to_string(request.paddedSamples)};
  return plan::otherBatch(request.planText, file, was, asked);
}

Outcome<Request> readRequest(const Options &options) {
  if (rt::Status status = checkOutputs(options); !status.isOk())
    return fail(status.error());
  if (std::string why; !options.data.empty() && !io::MappedFile::open(options.data, why))
    return fail({options.data + ": cannot read the data: " + why});
  Request request;
  request.options = options;
  request.globalBatch = options.globalBatch;
  if (!options.program.empty()) {
    auto preset = plan::findPreset(options.program);
    if (!preset)
      return fail(preset.error());
    request.preset = *preset;
  }
  auto cluster = clusterOf(options, request.preset);
  if (!cluster)
    return cluster.category();
  request.cluster = *cluster;
  request.options.train.classMultiple = classMultiple(request);
  request.headroom =
      options.memoryHeadroom.value_or(request.preset ? request.preset->errors.memory : 0);
  keepFree(request.cluster, request.headroom);
  if (options.train.precision == training::Precision::TF32)
    request.cluster = plan::withTF32(std::move(request.cluster));
  // The artifact fixes the threads of a rank: fewer than there are cores for are planned for.
  if (cluster->sharedMemory)
    request.cluster.cores = std::min(cluster->cores, options.threadsPerRank * options.devices);
  auto parsed = isPlanFile(options.plan) ? specOfPlanFile(request) : plan::parseSpec(options.plan);
  if (!parsed)
    return fail(saidIn(options, parsed.error()));
  if (std::string twice = addRead(options.readSpec, *parsed); !twice.empty())
    return fail(atConfigured(options, {twice, ErrorCategory::Usage}));
  auto filled = plan::fill(*parsed, options.devices);
  if (!filled)
    return fail(saidIn(options, filled.error()));
  if (auto error = whyNotForward(options, *filled))
    return fail(atConfigured(options, *error));
  if (options.microBatch && filled->microBatch && *options.microBatch != *filled->microBatch)
    return fail(atConfigured(options, {"--micro-batch " + std::to_string(*options.microBatch) +
                                           " contradicts micro_batch=" +
                                           std::to_string(*filled->microBatch) + " in --plan",
                                       ErrorCategory::Usage}));
  request.given = *parsed;
  request.spec = *filled;
  if (options.microBatch)
    request.given.microBatch = request.spec.microBatch = options.microBatch;
  padBatch(request);
  if (auto other = whyOtherBatch(request))
    return fail(*other);
  auto hidden = hiddenPadding(request);
  if (!hidden)
    return fail(saidIn(options, hidden.error()));
  request.options.train.hidden = std::move(*hidden);
  return request;
}

Result<BatchChoice> chooseBatch(const Request &request, int64_t fileBatch, int64_t dataParallel) {
  BatchChoice choice{request.globalBatch.value_or(std::max<int64_t>(fileBatch, 1) * dataParallel),
                     1};
  if (!request.spec.microBatch)
    return choice;
  int64_t microBatch = *request.spec.microBatch, perCall = dataParallel * microBatch;
  if (choice.globalBatch % perCall)
    return Error{"the global batch " + std::to_string(choice.globalBatch) +
                     " is not a multiple of " + std::to_string(dataParallel) +
                     " data-parallel ranks times micro batch " + std::to_string(microBatch),
                 ErrorCategory::Usage};
  choice.numMicrobatches = choice.globalBatch / perCall;
  return choice;
}

} // namespace dtc::driver
