// `--hf`: a model of Hugging Face's transformers, which a Python with PyTorch writes as a program.
//
// The script is python/dtc/hf.py, which the binary carries. It runs as a process of its own, so
// that neither dtc nor the interpreter must have been built for the other.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Driver/Outcome.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace dtc::driver {

/// What --hf and the flags beside it say.
struct HuggingFaceFlags {
  std::string path; ///< a folder or config.json; empty: the model is a file
  std::string sequence, decoderSequence, architecture, inputs;
};

/// The model as a file, its name, and --hf with the flags beside it.
void declareModel(CLI::App &command, HuggingFaceFlags &flags, Options &options);

/// A model is a file or --hf's, and flags beside --hf have no other use.
std::optional<std::string> wrongModel(const CLI::App &command, const std::string &model);

/// What keeps a model's file from being opened, if anything.
std::optional<plan::Error> missingModel(const std::string &path);

/// The program of a model, a file as long as this object.
class HuggingFaceModel {
public:
  static Outcome<HuggingFaceModel> write(const HuggingFaceFlags &flags, bool withWeights);
  const std::string &path() const { return *file; }

private:
  explicit HuggingFaceModel(std::shared_ptr<const std::string> file) : file(std::move(file)) {}
  std::shared_ptr<const std::string> file; ///< is removed with the last owner
};

} // namespace dtc::driver
