// Why one tensor or op is sharded as it is: every other way, with its price.
//
//   mlp.weight  4096x11008  parameter, laid out [{}, {"tp"}]
//     [{}, {}]        4.1 % slower: each rank computes all of it
//     [{"tp"}, {}]    1.9 % slower
//
// A way is priced by fixing it and solving the shardings of everything else again;
// degrees, stages, ZeRO and recomputation stay.
#pragma once

#include "dtc/Plan/Explain/Compare.h"
#include "dtc/Plan/Shard/SolveSharding.h"

namespace dtc::plan {

struct ShardingWay {
  std::string sharding; ///< axes by name, of a tensor or of an op's operands and results
  bool chosen = false;
  std::optional<Difference> difference; ///< against the plan
  std::string refusal;                  ///< why it can't be, without a difference
};

struct ShardingExplanation {
  std::string name, kind; ///< "parameter", "input", "dtc.contract", ...
  std::string shape;      ///< "4096x11008"; of an op its results'
  std::vector<ShardingWay> ways; ///< as it is first
  /// Whose mesh it is about, of a plan with stage groups.
  std::optional<size_t> group = std::nullopt;
};

/// `name`: of an argument, or of a node of the model file (of several ops that come from it, the
/// one that computes most). `solver`: what the plan's shardings were solved for. Where stages have
/// meshes of their own there is one for each group of them that has the op or reads the tensor. Its
/// ways are those of its stages alone. Usage: there is no such name; says the nearest.
Result<std::vector<ShardingExplanation>> explainSharding(const Problem &problem, const Plan &plan,
                               const Prediction &predicted, const Cluster &cluster,
                               const SolverOptions &solver, const std::string &name,
                               const Workspace *workspace = nullptr);

} // namespace dtc::plan
