// A configuration as people write it for training programs, as our own flags.
//
//   model: gpt2.onnx                          gpt2.onnx
//   optimizer: {name: adamw, lr: 3e-4}        --optimizer=adamw --lr=3e-4
//   precision: bf16-mixed                     --precision=bf16
//   micro_batch: 2                            --micro-batch=2
//   accumulation: 4                           --global-batch=64: 8 data-parallel ranks
//   mesh_shape: [[8, 2], [fsdp, tp]]          --plan=dp=8,tp=2
//   sharding_strategy: FULL_SHARD             --plan=...,zero=3
#pragma once

#include "dtc/Plan/Plan/YamlReader.h"

#include <string>
#include <vector>

namespace dtc::driver {

/// A flag that a configuration says, without dashes. "model" is the positional argument.
struct FlagValue {
  std::string name, value;
  int line = 0; ///< from 1
};
using FlagValues = std::vector<FlagValue>;

/// Turns the keys above into flags, and takes them out of the map. Throws plan::YamlError.
FlagValues takeTrainingKeys(YAML::Node &root, const std::string &file);

} // namespace dtc::driver
