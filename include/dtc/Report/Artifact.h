// What is told of a compilation beside its plan: what --verify found, and what `dtc inspect` says.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace dtc::report {

/// A step on all ranks compared with the same step on one.
struct StepVerification {
  int64_t ranks = 0, tensors = 0; ///< how many computed and were compared
  double worst = 0;               ///< difference of an element over its tensor's largest one
  std::string worstTensor;
  std::string firstWrong;   ///< of those that differ, the one that is computed first
  std::string mesh;         ///< of the twin that was compared; empty: the step itself was
  bool isOfKernels = false; ///< what differs is the program of kernels, else the partitioned one
};

/// "verified 12 tensors of a step on 4 ranks, largest difference ...".
std::string verifiedText(const StepVerification &found);
/// The error where they differ.
std::string differenceText(const StepVerification &found);

/// The facts of `dtc inspect --json` for people.
std::string artifactText(const nlohmann::ordered_json &facts);

} // namespace dtc::report
