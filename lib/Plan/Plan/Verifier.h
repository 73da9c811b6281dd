// One verification of a plan: what has been found wrong so far.
#pragma once

#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Plan/Plan/Verify.h"

#include <optional>
#include <set>

namespace dtc::plan {

class Verifier {
public:
  Verifier(const Problem &problem, const Plan &plan, const Cluster &cluster)
      : problem(problem), plan(plan), cluster(cluster) {}

  std::vector<Violation> run() {
    checkDegrees();
    checkGroups();
    checkDeviceCount();
    // All the rest divides by the sizes of the axes.
    for (size_t group = 0; violations.empty() && group < groupCount(plan.degrees); ++group)
      checkAxes(shardingOf(plan, group).mesh);
    if (!violations.empty())
      return std::move(violations);
    checkStages();
    checkSchedule();
    checkRecompute();
    if (plan.degrees.groups.empty())
      checkModelSharding();
    for (size_t group = 0; group < plan.degrees.groups.size(); ++group)
      checkGroup(group);
    return std::move(violations);
  }

private:
  void checkModelSharding();
  void checkGroup(size_t group);
  void checkGroups();
  void checkDeviceCount();
  void checkDegrees();
  void checkAxes(const sharding::Mesh &mesh);
  void checkMesh();
  void checkStages();
  void checkSchedule();
  void checkRecompute();
  /// `placement`: of the stages, if they can be placed.
  void checkDevices(size_t stage, const std::optional<schedule::Placement> &placement,
                    std::set<int64_t> &taken);
  void checkNeighbours(const Stage &stage, const std::string &name);
  void checkArguments();
  void checkStorage();
  void checkLevels();
  void checkZeroBlocks();
  void checkOps();
  void checkFlow();
  void checkGroupedExperts(OpId id);
  void checkSequence(const ProblemFacts &facts);
  const ProblemFacts &facts() {
    return known ? *known : known.emplace(problem);
  }
  void report(const std::string &message, OpId op = -1) { violations.push_back({message, op}); }

  const Problem &problem;
  const Plan &plan;
  const Cluster &cluster;
  std::optional<ProblemFacts> known;
  std::vector<Violation> violations;
};

} // namespace dtc::plan
