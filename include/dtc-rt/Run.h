// A whole run: opens the artifact, starts the ranks, steps, reports, saves.
//
// The ranks are threads of this process, or this process is one of them.
#pragma once

#include "dtc-rt/Files/Weights.h"
#include "dtc-rt/Processes/Launch.h"
#include "dtc-rt/Status.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace dtc::rt {

/// Seconds that a rank waits for another where the user doesn't say.
inline constexpr double kTimeoutSeconds = 1800;

struct RunOptions {
  std::string artifact;
  std::string data;                 ///< empty: the artifact's, where it has one
  bool hasData = true;              ///< else batches are given one by one
  std::string evalData;             ///< empty: none is evaluated
  std::optional<int64_t> evalEvery; ///< steps; else at the end alone
  std::string outputs;     ///< empty: none (likewise below)
  std::string log;
  std::string saveWeights;
  std::string profile;
  SavedWeights savedWeights = SavedWeights::All;
  std::optional<int64_t> steps; ///< one epoch where not given
  bool shuffle = true;
  std::optional<uint64_t> seed; ///< 0, or the checkpoint's, where not given
  std::string checkpointDir;
  std::optional<int64_t> checkpointEvery; ///< steps; else at the end alone
  std::optional<int64_t> checkpointKeep;  ///< the newest so many; all where not given
  bool resume = false;
  std::optional<double> timeoutSeconds; ///< where not given, steps that hang end sooner
  bool autotunes = false;       ///< times the algorithms of products
  bool processes = false;       ///< `--processes`, which the caller sees to
  std::optional<Launch> launch; ///< where this process is one rank

  std::chrono::milliseconds timeLimit() const {
    return std::chrono::milliseconds(
        static_cast<int64_t>(timeoutSeconds.value_or(kTimeoutSeconds) * 1000));
  }
};

/// Progress goes to stderr, the summary to stdout.
Status run(const RunOptions &options);

} // namespace dtc::rt
