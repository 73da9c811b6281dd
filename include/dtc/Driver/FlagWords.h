// The words of flags that choose one of a few, for reading them, and for saying what was chosen:
//
//     choose("--optimizer", "adamw", kOptimizers, optimizer)      sets OptimizerKind::AdamW
//     wordOf(kOptimizers, OptimizerKind::AdamW)                   "adamw"
#pragma once

#include "dtc/Driver/Options.h"

#include <initializer_list>
#include <type_traits>
#include <utility>

namespace dtc::driver {

template <typename Value> using Words = std::initializer_list<std::pair<const char *, Value>>;

/// In artifacts, too.
inline constexpr Words<training::OptimizerKind> kOptimizers = {
    {"sgd", training::OptimizerKind::Sgd},
    {"adam", training::OptimizerKind::Adam},
    {"adamw", training::OptimizerKind::AdamW}};

/// As the presets of other programs name them.
inline constexpr Words<training::Precision> kPrecisions = {
    {"fp32", training::Precision::F32},
    {"tf32", training::Precision::TF32},
    {"bf16", training::Precision::BF16},
    {"fp16", training::Precision::F16},
    {"bf16-true", training::Precision::BF16True}};

/// In artifacts, too: the runtime reads them.
inline constexpr Words<LearningRateSchedule> kLearningRateSchedules = {
    {"constant", LearningRateSchedule::Constant},
    {"linear", LearningRateSchedule::Linear},
    {"cosine", LearningRateSchedule::Cosine}};

/// The names of the targets (Target/Targets.h).
inline constexpr Words<Target> kTargets = {
    {"cpu", Target::CPU},
    {"cuda", Target::CUDA},
};

template <typename Value>
constexpr const char *wordOf(Words<Value> words, std::type_identity_t<Value> value) {
  for (const auto &[word, meaning] : words)
    if (meaning == value)
      return word;
  return "";
}

} // namespace dtc::driver
