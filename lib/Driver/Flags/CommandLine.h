// Command line and configuration file to Options.
#pragma once

#include "CommandOptions.h"
#include "HuggingFace.h"

#include "dtc/Driver/Options.h"

#include <CLI/CLI.hpp>

namespace dtc::driver {

/// Which of the shared flags a command takes.
struct FlagSet {
  bool lowering = false; ///< -o, --emit, --weights, ...: compile only
};

/// Declares the flags that compile and plan share on `command`; values land in
/// `raw` as text and are checked by `resolve`.
struct RawOptions {
  Options options;
  std::string target, betas, lrSchedule = "constant", precision = "fp32", optimizer = "adamw";
  std::string emit, config, lossText, noDecay, freeze, train, architectures, classWeights, lora;
  std::string batchNorm = "file";
  std::vector<std::string> knownArchitectures; ///< of GPUs, as --arch names them
  double clipGradNorm = 0;
  int64_t gpus = 0, globalBatch = 0, microBatch = 0;
  std::vector<std::string> shapes, paddingRows, batchDims;
  std::string explain; ///< the flag's value, if any
  HuggingFaceFlags huggingFace;
  std::string memoryHeadroom;
};

/// Flags beside --loss: label smoothing, class weights, batch norm, adapters (LossFlags.cpp).
void declareLossFlags(CLI::App &command, RawOptions &raw);
std::optional<plan::Error> resolveLossFlags(RawOptions &raw, Options &options);
/// Once the precision is known.
std::optional<plan::Error> checkLossScale(const Options &options);

void declareFlags(CLI::App &command, RawOptions &raw, FlagSet flags);

/// Checks what was given and fills Options; errors are usage errors.
plan::Result<Options> resolve(const CLI::App &command, RawOptions &raw, bool compiling);

std::vector<std::string> split(const std::string &text, char separator);

// Each takes one flag's NAME=VALUE into the options.
std::optional<plan::Error> parseShape(const std::string &text, import::ImportOptions &options);
std::optional<plan::Error> parsePaddingRow(const std::string &text, import::ImportOptions &options);
std::optional<plan::Error> parseBatchDim(const std::string &text, import::ImportOptions &options);

/// The flags of `dtc estimate`, likewise.
struct RawEstimate {
  RawOptions common;
  std::vector<std::string> memories;
  std::string gradients = "bf16", precision = "bf16", quantization = "none";
  EstimateOptions options;
};
// In EstimateFlags.cpp.
void declareEstimateFlags(CLI::App &command, RawEstimate &raw);
plan::Result<EstimateOptions> resolveEstimate(const CLI::App &command, RawEstimate &raw);

/// Of the program that is to run the plan: --for and what belongs to it.
void declareProgramFlags(CLI::App &command, RawOptions &raw);
std::optional<plan::Error> resolveProgram(const CLI::App &command, const RawOptions &raw,
                                          Options &options);

plan::Error usage(std::string message);
/// None for a text that isn't a finite number as a whole.
std::optional<double> toDouble(const std::string &text);
/// All flags with numbers refuse what is none; integers are decimal and fit. Which of them make
/// sense, `resolve` knows.
void takeNumbers(CLI::App &command);

/// `choices` maps what the user may write to what it means.
template <typename T>
std::optional<plan::Error> choose(const char *flag, const std::string &text,
                                  std::initializer_list<std::pair<const char *, T>> choices,
                                  T &result) {
  std::vector<std::string> known;
  for (auto &[name, value] : choices) {
    if (text == name) {
      result = value;
      return std::nullopt;
    }
    known.push_back(name);
  }
  std::string list;
  for (auto &name : known)
    list += (list.empty() ? "" : "|") + name;
  return usage(std::string(flag) + ": expected " + list + ", got '" + text + "'");
}

std::optional<plan::Error> choosePrecision(const std::string &text, Options &options);
std::optional<plan::Error> resolveLoss(RawOptions &raw, Options &options, bool compiling);

/// Shows in -h what holds where the flag isn't given.
void shows(CLI::Option *option, const std::string &otherwise);

/// A flag of a YAML mapping (`--config`).
struct ConfiguredFlag {
  std::string name;     ///< "--lr"; empty: the model
  std::string argument; ///< "--lr=0.1"
  std::string place;    ///< "train.yaml:3"
};
plan::Result<std::vector<ConfiguredFlag>> readConfiguration(const std::string &path,
                                                            const CLI::App &command);

} // namespace dtc::driver
