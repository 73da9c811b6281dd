// What is known of a planned step, for everything that tells people about it.
#pragma once

#include "dtc/Plan/Search/Search.h"

#include <memory>

namespace dtc::report {

/// What a plan holds for, and whether anybody asked for it.
struct Condition {
  std::string name;  ///< as its flag without the dashes: "global-batch"
  std::string value; ///< "32"
  bool isAssumed = false;
  std::string reason = ""; ///< why this was assumed, where that isn't the flag's default
};

struct PlanFacts {
  const plan::Problem &problem;
  const plan::SearchResult &search;
  const plan::Cluster &cluster;
  int64_t devices = 1;
  double planningSeconds = 0;
  const plan::Workspace *workspace = nullptr;
  std::vector<Condition> conditions = {};
  int64_t paddedSamples = 0; ///< of the problem's global batch

  /// What a step reads.
  int64_t globalBatch() const { return problem.globalBatch() - paddedSamples; }
};

/// Whether its times are those of a usual processor, as this one wasn't measured.
bool isRough(const PlanFacts &facts);

/// Pipeline ranks that have one mesh.
struct MeshPart {
  std::string ranks; ///< "pipeline ranks 0-1"; empty where all have the same mesh
  /// With the shardings of this mesh, and of arguments those that the ranks read.
  std::shared_ptr<const plan::Plan> plan;
};
std::vector<MeshPart> meshParts(const PlanFacts &facts);

/// What follows from a prediction, per device; 0: not known.
struct Rates {
  double tokens = 0; ///< per second
  double flops = 0;  ///< per second, of the model's contractions
  double padding = 0; ///< per second, beside these, of contractions with padding
  double mfu = 0;    ///< of the device's peak for the contractions' type
};

/// Of a plan of `facts.problem` with these degrees: the samples of its step depend
/// on them where each rank brings its own.
Rates ratesOf(const plan::Prediction &predicted, const plan::Degrees &degrees,
              const PlanFacts &facts);

} // namespace dtc::report
