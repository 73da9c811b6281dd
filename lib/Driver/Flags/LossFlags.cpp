// What is trained and towards what, beside the kind of the loss.
#include "CommandLine.h"

#include "dtc-rt/Files/ArrayFile.h"
#include "dtc/Plan/Plan/Spec.h"

#include "llvm/ADT/StringExtras.h"

#include <re2/re2.h>

#include <cmath>

namespace dtc::driver {

using plan::Error;
using training::LossKind;

void declareLossFlags(CLI::App &command, RawOptions &raw) {
  auto shows = [](CLI::Option *option, const char *otherwise) { option->default_str(otherwise); };
  shows(command.add_option("--label-smoothing", raw.options.train.labelSmoothing,
                           "share of cross entropy's target that all classes have alike"),
        "0");
  shows(command.add_option("--class-weights", raw.classWeights,
                           "FILE.safetensors or .npz with a weight for each class"),
        "none");
  shows(
      command.add_option("--lora", raw.lora, "train adapters alone: rank=R,alpha=A,targets=REGEX"),
      "none");
  shows(command.add_option("--batch-norm", raw.batchNorm,
                           "train: by the batch's statistics, also where the file has the running "
                           "ones; file: as exported"),
        "file");
  training::LossScaleOptions &scale = raw.options.train.lossScale;
  shows(command.add_option("--loss-scale", scale.initial,
                           "fp16: what the loss is scaled by at first"),
        "65536");
  shows(command.add_option("--loss-scale-growth-interval", scale.growthInterval,
                           "fp16: steps without an overflow, after which the scale doubles"),
        "2000");
}

std::optional<Error> checkLossScale(const Options &options) {
  for (const char *flag : {"--loss-scale", "--loss-scale-growth-interval"})
    if (options.given.contains(flag) && !options.train.scalesLoss())
      return usage(std::string(flag) + " is for training with --precision fp16");
  const training::LossScaleOptions &scale = options.train.lossScale;
  if (!(scale.initial >= scale.kLeast && scale.initial <= scale.kMost))
    return usage("--loss-scale must be from 2^-64 to 2^64");
  if (scale.growthInterval < 1 || scale.growthInterval > scale.kMostInterval)
    return usage("--loss-scale-growth-interval must be from 1 to " +
                 std::to_string(scale.kMostInterval));
  return std::nullopt;
}

/// One array of floats, none of them negative.
static std::optional<Error> readClassWeights(const std::string &path,
                                             std::vector<double> &weights) {
  auto file = rt::ArrayFile::open(path);
  if (!file)
    return file.status().error();
  if (file->arrays.size() != 1)
    return Error{path + ": must hold one array of class weights, it holds " +
                 std::to_string(file->arrays.size())};
  const auto &[name, array] = *file->arrays.begin();
  if (array.shape.size() != 1 || !rt::isFloat(array.dtype))
    return Error{path + ": " + name + ": must be a list of floats"};
  constexpr int64_t kMostClasses = int64_t(1) << 22; // a vocabulary has a tenth of them
  if (array.shape[0] > kMostClasses)
    return Error{path + ": " + name + ": has more than " + std::to_string(kMostClasses) +
                 " weights: " + std::to_string(array.shape[0])};
  weights.resize(static_cast<size_t>(array.shape[0]));
  rt::convert(rt::DType::F64, reinterpret_cast<char *>(weights.data()), array.dtype, array.data,
              array.shape[0]);
  double sum = 0;
  for (double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      return Error{path + ": " + name +
                   ": a class weight is no number of 0 or more: " + std::to_string(weight)};
    sum += weight;
  }
  if (!(sum > 0))
    return Error{path + ": " + name + ": all class weights are 0"};
  return std::nullopt;
}

/// `targets` may have commas, and comes last.
static std::optional<Error> parseAdapters(const std::string &text,
                                          training::AdapterOptions &adapters) {
  auto bad = [&](const std::string &why) {
    return usage("--lora: expected rank=R,alpha=A,targets=REGEX, got '" + text + "'" + why);
  };
  bool hasAlpha = false;
  for (llvm::StringRef rest = text; !rest.empty();) {
    if (rest.consume_front("targets=")) {
      if (RE2 pattern(rest.str(), RE2::Quiet); !pattern.ok())
        return bad(": " + pattern.error());
      adapters.targets = rest.str();
      break;
    }
    auto [item, after] = rest.split(',');
    auto [key, value] = item.split('=');
    rest = after;
    auto integer = plan::toInteger(value.str());
    double number = 0;
    if (key == "rank" && adapters.rank == 0 && integer && *integer >= 1 && *integer <= 65536)
      adapters.rank = *integer;
    else if (key == "alpha" && !hasAlpha && !value.getAsDouble(number) && number > 0 &&
             std::isfinite(number))
      adapters.alpha = number, hasAlpha = true;
    else
      return bad(": '" + item.str() + "'");
  }
  if (adapters.rank == 0)
    return bad(": without a rank");
  return std::nullopt;
}

std::optional<Error> resolveLossFlags(RawOptions &raw, Options &options) {
  training::TrainOptions &train = options.train;
  const bool smoothed = train.labelSmoothing != 0, weighted = !raw.classWeights.empty();
  for (auto [given, flag] :
       {std::pair{smoothed, "--label-smoothing"}, std::pair{weighted, "--class-weights"}})
    if (given && train.loss != LossKind::CrossEntropy)
      return usage(std::string(flag) + " is for --loss cross_entropy");
  if (!(train.labelSmoothing >= 0 && train.labelSmoothing <= 1))
    return usage("--label-smoothing must be between 0 and 1");
  if (raw.batchNorm != "file" && raw.batchNorm != "train")
    return usage("--batch-norm must be file or train, got '" + raw.batchNorm + "'");
  options.import.batchNorm =
      raw.batchNorm == "train" ? import::BatchNormMode::Train : import::BatchNormMode::AsInFile;
  if (!raw.lora.empty()) {
    if (train.loss == LossKind::None)
      return usage("--lora is for training, not for --loss none");
    if (auto error = parseAdapters(raw.lora, train.adapters))
      return error;
  }
  return weighted ? readClassWeights(raw.classWeights, train.classWeights) : std::nullopt;
}

} // namespace dtc::driver
