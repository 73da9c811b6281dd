#include "CommandLine.h"

#include "OutputFiles.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc/Driver/FlagWords.h"
#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/Spec.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <re2/re2.h>
#include <thread>

namespace dtc::driver {

using plan::Error;
using plan::Result;

Error usage(std::string message) { return Error{std::move(message), ErrorCategory::Usage}; }

std::optional<double> toDouble(const std::string &text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// Shows in -h what holds where the flag isn't given.
void shows(CLI::Option *option, const std::string &otherwise) { option->default_str(otherwise); }

std::optional<Error> resolveLoss(RawOptions &raw, Options &options, bool compiling) {
  using training::LossKind;
  if (raw.lossText.empty()) {
    if (compiling)
      return usage("--loss is required: cross_entropy, mse, output:NAME or none");
    raw.lossText = "cross_entropy";
  }
  options.loss = raw.lossText;
  if (raw.lossText.starts_with("output:") && raw.lossText.size() > 7) {
    options.train.loss = LossKind::Output;
    options.train.lossOutput = raw.lossText.substr(7);
    return std::nullopt;
  }
  return choose<LossKind>("--loss", raw.lossText,
                          {{"cross_entropy", LossKind::CrossEntropy},
                           {"mse", LossKind::MeanSquaredError},
                           {"output:NAME", LossKind::Output}, // known by its prefix above
                           {"none", LossKind::None}},
                          options.train.loss);
}

namespace {

/// What CLI11 gives for a flag without a value.
constexpr const char *kFlagAlone = "true";

std::optional<Error> checkRegex(const char *flag, const std::string &text,
                                std::optional<std::string> &result) {
  if (text.empty())
    return std::nullopt;
  if (RE2 pattern(text, RE2::Quiet); !pattern.ok())
    return usage(std::string(flag) + ": not a regular expression (" + pattern.error() + "): '" +
                 text + "'");
  result = text;
  return std::nullopt;
}

std::optional<Error> resolveOptimizer(const CLI::App &command, RawOptions &raw, Options &options) {
  using training::OptimizerKind;
  auto &train = options.train;
  if (auto error = choose("--optimizer", raw.optimizer, kOptimizers, train.optimizer))
    return error;
  // PyTorch's defaults: only AdamW decays unless told to.
  if (command.count("--weight-decay") == 0)
    train.weightDecay = train.optimizer == OptimizerKind::AdamW ? 0.01 : 0.0;
  if (!raw.betas.empty()) {
    auto parts = split(raw.betas, ',');
    auto first = toDouble(parts[0]), second = parts.size() == 2 ? toDouble(parts[1]) : std::nullopt;
    if (!first || !second || *first < 0 || *first >= 1 || *second < 0 || *second >= 1)
      return usage("--betas: expected A,B in [0, 1), got '" + raw.betas + "'");
    train.beta1 = *first;
    train.beta2 = *second;
  }
  bool sgd = train.optimizer == OptimizerKind::Sgd;
  for (const char *flag : {"--momentum", "--nesterov"})
    if (!sgd && command.count(flag))
      return usage(std::string(flag) + " is for --optimizer sgd");
  for (const char *flag : {"--betas", "--eps"})
    if (sgd && command.count(flag))
      return usage(std::string(flag) + " is for --optimizer adam or adamw");
  for (auto [flag, value] : {std::pair{"--eps", train.eps},
                             {"--momentum", train.momentum},
                             {"--weight-decay", train.weightDecay}})
    if (!(value >= 0) || !std::isfinite(value))
      return usage(std::string(flag) + " must be finite and not negative");
  if (train.nesterov && train.momentum <= 0)
    return usage("--nesterov needs a --momentum above 0");
  if (command.count("--clip-grad-norm")) {
    if (!(raw.clipGradNorm > 0) || !std::isfinite(raw.clipGradNorm))
      return usage("--clip-grad-norm must be finite and above 0");
    train.clipGradNorm = raw.clipGradNorm;
  }
  return checkRegex("--no-decay", raw.noDecay, train.noDecay);
}

std::optional<Error> resolveLearningRate(RawOptions &raw, Options &options) {
  auto &rate = options.learningRate;
  if (auto error = choose("--lr-schedule", raw.lrSchedule, kLearningRateSchedules, rate.schedule))
    return error;
  for (double value : {rate.lr, rate.minLr})
    if (!(value >= 0) || !std::isfinite(value))
      return usage("--lr and --min-lr must be finite and not negative");
  if (rate.warmupSteps < 0 || rate.totalSteps < 0)
    return usage("--warmup-steps and --total-steps must not be negative");
  if (rate.schedule != LearningRateSchedule::Constant && rate.totalSteps == 0)
    return usage("--lr-schedule " + raw.lrSchedule + " needs --total-steps");
  if (rate.totalSteps && rate.warmupSteps > rate.totalSteps)
    return usage("--warmup-steps exceeds --total-steps");
  if (rate.minLr > rate.lr)
    return usage("--min-lr exceeds --lr");
  return std::nullopt;
}

std::optional<Error> resolveArchitectures(const CLI::App &command, const RawOptions &raw,
                                          Options &options) {
  if (raw.architectures.empty() &&
      !(command.get_option_no_throw("--arch") && command.count("--arch")))
    return std::nullopt;
  if (options.target != Target::CUDA)
    return usage("--arch is for --target cuda");
  const std::vector<std::string> &known = raw.knownArchitectures;
  for (std::string &name : split(raw.architectures, ',')) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return usage("--arch must be among " + llvm::join(known, ", ") + ", got '" + name + "'");
    if (std::find(options.architectures.begin(), options.architectures.end(), name) !=
        options.architectures.end())
      return usage("--arch names one twice: " + name);
    options.architectures.push_back(name);
  }
  return std::nullopt;
}

/// A cluster of GPUs means GPUs, where nothing else is said.
std::optional<Error> resolveTarget(RawOptions &raw, const Options &options) {
  if (raw.target.empty() && options.cluster.empty())
    raw.target = "cpu";
  if (!raw.target.empty())
    return std::nullopt;
  plan::Result<plan::Cluster> cluster = plan::loadCluster(options.cluster);
  if (!cluster)
    return cluster.error();
  raw.target = cluster->sharedMemory ? "cpu" : "cuda";
  return std::nullopt;
}

std::optional<Error> resolveDevices(const CLI::App &command, RawOptions &raw, Options &options) {
  bool gpus = command.count("--gpus") > 0;
  if (gpus && command.count("--devices"))
    return usage("--gpus and --devices exclude each other");
  if (gpus) {
    options.devices = raw.gpus;
    if (!raw.target.empty() && raw.target != "cuda")
      return usage("--gpus means --target cuda, got '" + raw.target + "'");
    raw.target = "cuda";
  }
  if (options.devices < 1 || options.devices > plan::kMostDevices)
    return usage("the number of devices must be between 1 and " +
                 std::to_string(plan::kMostDevices) + ", got " + std::to_string(options.devices));
  if (auto error = resolveTarget(raw, options))
    return error;
  if (auto error = choose("--target", raw.target, kTargets, options.target))
    return error;
  if (options.cluster.empty())
    options.cluster = options.target == Target::CUDA ? "dgx-h100" : "cpu";
  if (auto error = resolveArchitectures(command, raw, options))
    return error;
  bool hasThreads = command.count("--threads-per-rank") > 0;
  if (hasThreads && (options.threadsPerRank < 1 || options.threadsPerRank > rt::kMostThreads))
    return usage("--threads-per-rank must be between 1 and " + std::to_string(rt::kMostThreads) +
                 ", got " + std::to_string(options.threadsPerRank));
  if (options.target == Target::CUDA) {
    if (hasThreads)
      return usage("--threads-per-rank is for --target cpu");
    options.threadsPerRank = 1;
  } else if (!hasThreads) {
    options.threadsPerRank =
        std::max<int64_t>(1, std::thread::hardware_concurrency() / options.devices);
  }
  return std::nullopt;
}

std::optional<Error> resolveBatch(const CLI::App &command, RawOptions &raw, Options &options) {
  for (auto [flag, value, result] :
       {std::tuple{"--global-batch", raw.globalBatch, &options.globalBatch},
        std::tuple{"--micro-batch", raw.microBatch, &options.microBatch}}) {
    if (!command.count(flag))
      continue;
    if (value < 1 || value > plan::kMostDegree)
      return usage(std::string(flag) + " must be between 1 and " +
                   std::to_string(plan::kMostDegree) + ", got " + std::to_string(value));
    *result = value;
  }
  return std::nullopt;
}

std::optional<Error> resolveEmit(RawOptions &raw, Options &options) {
  if (raw.emit.empty())
    return std::nullopt;
  return choose<Phase>("--emit", raw.emit,
                       {{"import", Phase::Import},
                        {"train", Phase::Train},
                        {"plan", Phase::Plan},
                        {"partition", Phase::Partition},
                        {"schedule", Phase::Schedule},
                        {"lower", Phase::Lower}},
                       options.until);
}

} // namespace

static void declareTrainingFlags(CLI::App &command, RawOptions &raw, FlagSet flags) {
  Options &o = raw.options;
  shows(command.add_option("--loss", raw.lossText, "cross_entropy, mse, output:NAME or none"),
        flags.lowering ? "" : "cross_entropy");
  declareLossFlags(command, raw);
  shows(command.add_option("--optimizer", raw.optimizer, "sgd, adam or adamw"), raw.optimizer);
  shows(command.add_option("--lr", o.learningRate.lr, "learning rate"), "0.001");
  shows(command.add_option("--betas", raw.betas, "Adam's A,B"), "0.9,0.999");
  shows(command.add_option("--eps", o.train.eps, "Adam's epsilon"), "1e-8");
  shows(command.add_option("--momentum", o.train.momentum, "SGD's momentum"), "0");
  command.add_flag("--nesterov", o.train.nesterov, "Nesterov momentum");
  shows(command.add_option("--weight-decay", o.train.weightDecay, "weight decay"),
        "0.01 for adamw, else 0");
  shows(command.add_option("--no-decay", raw.noDecay, "parameters without weight decay (regex)"),
        "none");
  shows(command.add_option("--clip-grad-norm", raw.clipGradNorm, "largest norm of the gradient"),
        "any");
  shows(command.add_option("--lr-schedule", raw.lrSchedule, "constant, linear or cosine"),
        raw.lrSchedule);
  shows(command.add_option("--warmup-steps", o.learningRate.warmupSteps, "steps of linear warm-up"),
        "0");
  shows(command.add_option("--total-steps", o.learningRate.totalSteps, "steps until --min-lr"),
        "none");
  shows(command.add_option("--min-lr", o.learningRate.minLr, "learning rate at the end"), "0");
  shows(command.add_option("--global-batch", raw.globalBatch, "samples a step"),
        "the file's for each data-parallel rank of the plan that is fastest a sample");
  shows(command.add_option("--micro-batch", raw.microBatch, "samples a microbatch and rank"),
        "the planner's choice");
  shows(command.add_option("--precision", raw.precision, "fp32, tf32, bf16, fp16 or bf16-true"),
        raw.precision);
}

static void declareModelFlags(CLI::App &command, RawOptions &raw) {
  Options &o = raw.options;
  shows(command.add_option("--shape", raw.shapes, "INPUT=DxDx...[xTYPE]")->allow_extra_args(false),
        "as in the file");
  shows(command.add_option("--padding-idx", raw.paddingRows, "WEIGHT=ROW")->allow_extra_args(false),
        "none");
  shows(command.add_option("--batch-dim", raw.batchDims, "INPUT=AXIS, or INPUT=none")
            ->allow_extra_args(false),
        "the first dimension");
  shows(command.add_option("--freeze", raw.freeze, "parameters not to train (regex)"), "none");
  shows(command.add_option("--train", raw.train,
                           "tensors to train, too, also of those that --freeze names (regex)"),
        "the parameters, not the buffers");
  command.add_flag("--allow-merged", o.import.allowMerged, "train merged initializers");
  shows(command.add_option("--weights", o.weights, "safetensors file or folder"),
        "the model's own");
  command.add_flag("--init", o.init, "draw the weights that have no data");
}

void declareFlags(CLI::App &command, RawOptions &raw, FlagSet flags) {
  Options &o = raw.options;
  declareModel(command, raw.huggingFace, o);
  command.add_option("--gpus", raw.gpus, "GPUs: --devices N --target cuda");
  shows(command.add_option("--devices", o.devices, "number of ranks"), "1");
  shows(command.add_option("--target", raw.target, "cpu or cuda"),
        "cuda with --gpus or a cluster of GPUs, else cpu");
  shows(command.add_option("--cluster", o.cluster, "built-in cluster or YAML file"),
        "dgx-h100 for cuda, this machine for cpu");
  declareTrainingFlags(command, raw, flags);
  shows(command.add_option("--plan", o.plan, "auto, SPEC (dp=2,tp=4) or FILE.yaml"), o.plan);
  shows(command.add_option("--threads-per-rank", o.threadsPerRank, "CPU threads a rank"),
        "cores / ranks");
  declareModelFlags(command, raw);
  shows(command.add_option("--config", raw.config, "YAML file of flags"), "none");
  command.add_option("--save-plan", o.savePlan, "write the plan (YAML)");
  command.add_option("--report", o.report, "write a page about the plan (HTML)");
  command.add_option("--trace", o.trace, "write the simulated step for ui.perfetto.dev (JSON)");
  if (flags.lowering) {
    command.add_option("-o,--output", o.output, "the artifact to write");
    shows(command.add_option("--arch", raw.architectures, "GPUs to make code for ahead"),
          "sm_80,sm_90,sm_100");
    command.add_option("--data", o.data, "samples that dtc-run takes where it is given none");
    command.add_flag("--embed-weights", o.embedWeights, "put external weights into the artifact");
    command.add_option("--emit", raw.emit,
                       "stop after import, train, plan, partition, schedule or lower");
    command.add_flag("--verify,!--no-verify", o.verify, "prove that N ranks compute what one does");
  } else {
    command.add_flag("--json", o.json, "print JSON");
    command.add_flag("--explain", raw.explain,
                     "say why: runners-up, the price of pins; --explain=NAME: of a tensor or node");
    declareProgramFlags(command, raw);
    command.add_option("--compare", o.compare, "two plans side by side: A B, each as for --plan")
        ->expected(2);
  }
  takeNumbers(command);
}

/// What --batch-dim says, and that it is of a model that isn't trained.
static std::optional<Error> resolveBatchDims(const RawOptions &raw, Options &options) {
  for (auto &text : raw.batchDims)
    if (auto error = parseBatchDim(text, options.import))
      return error;
  if (!raw.batchDims.empty() && options.train.loss != training::LossKind::None)
    return usage("--batch-dim needs --loss none: losses are means over the first dimension");
  return std::nullopt;
}

/// Whether a flag is given both ways.
static bool isContradictory(const CLI::App &command, const char *flag) {
  const CLI::Option *option = command.get_option_no_throw(flag);
  return option && llvm::is_contained(option->results(), "true") &&
         llvm::is_contained(option->results(), "false");
}

/// What is asked for beside the answer: that it can be had, and where it goes.
static std::optional<Error> checkAsked(const CLI::App &command, const RawOptions &raw,
                                       const Options &options, bool compiling) {
  for (const char *flag : {"--plan", "--save-plan", "--trace", "--explain"})
    if (!options.compare.empty() && command.count(flag))
      return usage(std::string(flag) + " and --compare exclude each other");
  if (isContradictory(command, "--verify"))
    return usage("--verify and --no-verify exclude each other");
  for (auto [given, flag, phase] :
       {std::tuple{!options.savePlan.empty(), "--save-plan", Phase::Plan},
        std::tuple{!options.trace.empty(), "--trace", Phase::Plan},
        std::tuple{!options.report.empty(), "--report", Phase::Plan},
        std::tuple{options.verify.value_or(false), "--verify", Phase::Partition}})
    if (given && options.until < phase)
      return usage(std::string(flag) + " is about what --emit " + raw.emit + " doesn't come to");
  if (compiling && options.output.empty() && options.until == Phase::End)
    return usage("-o is required");
  rt::Status status =
      checkOutputs(options, {{"--config", raw.config}, {"--class-weights", raw.classWeights}});
  if (!status.isOk())
    return status.error();
  return std::nullopt;
}

std::optional<Error> choosePrecision(const std::string &text, Options &options) {
  return choose("--precision", text, kPrecisions, options.train.precision);
}

plan::Result<Options> resolve(const CLI::App &command, RawOptions &raw, bool compiling) {
  Options &options = raw.options;
  for (const CLI::Option *option : command.get_options())
    if (option->count() > 0)
      for (const std::string &name : option->get_lnames())
        options.given.insert("--" + name);
  if (auto error = resolveDevices(command, raw, options))
    return *error;
  if (auto error = resolveLoss(raw, options, compiling))
    return *error;
  options.import.training = compiling && options.train.loss != training::LossKind::None;
  if (auto error = resolveLossFlags(raw, options))
    return *error;
  if (auto error = resolveOptimizer(command, raw, options))
    return *error;
  if (auto error = resolveLearningRate(raw, options))
    return *error;
  if (auto error = resolveBatch(command, raw, options))
    return *error;
  if (auto error = resolveEmit(raw, options))
    return *error;
  if (auto error = choosePrecision(raw.precision, options))
    return *error;
  if (options.train.precision == training::Precision::TF32 && options.target != Target::CUDA)
    return usage("--precision tf32 is for GPUs, with --gpus N or --target cuda");
  if (auto error = checkLossScale(options))
    return *error;
  for (auto &text : raw.shapes)
    if (auto error = parseShape(text, options.import))
      return *error;
  for (auto &text : raw.paddingRows)
    if (auto error = parsePaddingRow(text, options.import))
      return *error;
  if (auto error = resolveProgram(command, raw, options))
    return *error;
  if (auto error = resolveBatchDims(raw, options))
    return *error;
  if (auto error = checkRegex("--freeze", raw.freeze, options.import.freeze))
    return *error;
  if (auto error = checkRegex("--train", raw.train, options.import.train))
    return *error;
  if (!options.given.contains("--verify"))
    options.verify.reset(); // CLI11 sets a flag that isn't given to false
  options.explain = !raw.explain.empty();
  if (options.explain && raw.explain != kFlagAlone)
    options.explainName = raw.explain;
  if (auto error = checkAsked(command, raw, options, compiling))
    return *error;
  return options;
}

} // namespace dtc::driver
