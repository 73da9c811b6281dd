// The flags of dtc estimate.
#include "CommandLine.h"

#include "dtc/Plan/Plan/Spec.h"

namespace dtc::driver {

void declareEstimateFlags(CLI::App &command, RawEstimate &raw) {
  Options &o = raw.common.options;
  declareModel(command, raw.common.huggingFace, o);
  shows(command.add_option("--cluster", o.cluster, "built-in cluster or YAML file"),
        "every built-in device");
  command
      .add_option("--gpu-memory", raw.memories, "of other devices: 48GB, 80GiB; may be repeated")
      ->allow_extra_args(false);
  shows(command.add_option("--gpus", raw.common.gpus, "what so many hold"), "how few will do");
  shows(command.add_option("--lora-rank", raw.options.loraRank, "of adapters; 0: without them"),
        std::to_string(raw.options.loraRank));
  shows(command.add_option("--precision", raw.precision, "fp32, tf32, bf16, fp16 or bf16-true"),
        raw.precision);
  shows(command.add_option("--quantization", raw.quantization,
                           "of weights that don't train: none, int8 or int4"),
        raw.quantization);
  shows(
      command.add_option("--micro-batch", raw.options.microBatch, "samples of a device at a time"),
      std::to_string(raw.options.microBatch));
  shows(
      command.add_option("--gradients", raw.gradients, "type in which they are kept: bf16 or fp32"),
      raw.gradients);
  shows(command.add_option("--loss", raw.common.lossText, "cross_entropy, mse or output:NAME"),
        "cross_entropy");
  shows(command.add_option("--shape", raw.common.shapes, "INPUT=DxDx...[xTYPE]")
            ->allow_extra_args(false),
        "as in the file");
  shows(command.add_option("--padding-idx", raw.common.paddingRows, "WEIGHT=ROW")
            ->allow_extra_args(false),
        "none");
  command.add_flag("--json", raw.options.json, "print JSON");
  takeNumbers(command);
}

/// "80GB", "74.5GiB": bytes.
static plan::Result<double> parseMemory(const std::string &text) {
  for (auto [unit, scale] : {std::pair{"GiB", 1073741824.0}, {"GB", 1e9}}) {
    if (!text.ends_with(unit))
      continue;
    auto value = toDouble(text.substr(0, text.size() - std::string(unit).size()));
    if (value && *value > 0 && *value <= 1e6)
      return *value * scale;
  }
  return usage("--gpu-memory: expected a number of GB or GiB, got '" + text + "'");
}

/// Far more than devices hold; graphs are built for 16 times as many.
static constexpr int64_t kMostMicroBatch = 4096;

plan::Result<EstimateOptions> resolveEstimate(const CLI::App &command, RawEstimate &raw) {
  Options &base = raw.common.options;
  base.target = Target::CUDA;
  base.onlyPlan = true;
  base.import.training = false; // nothing is trained here
  if (auto error = choosePrecision(raw.precision, base))
    return *error;
  if (raw.common.lossText == "none")
    return usage("--loss: expected cross_entropy, mse or output:NAME, got 'none'");
  if (auto error = resolveLoss(raw.common, base, false))
    return *error;
  for (auto &text : raw.common.shapes)
    if (auto error = parseShape(text, base.import))
      return *error;
  for (auto &text : raw.common.paddingRows)
    if (auto error = parsePaddingRow(text, base.import))
      return *error;
  EstimateOptions &options = raw.options;
  if (auto error = choose<bool>("--gradients", raw.gradients, {{"bf16", true}, {"fp32", false}},
                                options.narrowGradients))
    return *error;
  using plan::Quantization;
  if (auto error = choose<Quantization>("--quantization", raw.quantization,
                                        {{"none", Quantization::None},
                                         {"int8", Quantization::Int8},
                                         {"int4", Quantization::Int4}},
                                        options.quantization))
    return *error;
  options.gpus = raw.common.gpus;
  if (command.count("--gpus") && (options.gpus < 1 || options.gpus > plan::kMostDevices))
    return usage("--gpus must be between 1 and " + std::to_string(plan::kMostDevices) + ", got " +
                 std::to_string(options.gpus));
  if (options.loraRank < 0 || options.loraRank > 65536)
    return usage("--lora-rank must be between 0 and 65536, got " +
                 std::to_string(options.loraRank));
  if (options.microBatch < 1 || options.microBatch > kMostMicroBatch)
    return usage("--micro-batch must be between 1 and " + std::to_string(kMostMicroBatch) +
                 ", got " + std::to_string(options.microBatch));
  for (const std::string &text : raw.memories) {
    auto bytes = parseMemory(text);
    if (!bytes)
      return bytes.error();
    options.memories.emplace_back(text, *bytes);
  }
  options.base = base;
  return options;
}

} // namespace dtc::driver
