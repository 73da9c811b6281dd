// How the candidates of a search are listed: meshes, groups of stages, schedules.
#pragma once

#include "Candidates.h"

#include "dtc/Plan/Plan/ChangedBuffers.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace dtc::plan {

class Enumeration {
public:
  Enumeration(const Problem &problem, const ProblemFacts &facts, const Spec &spec,
              const SearchOptions &options, const SearchRange &range)
      : problem(problem), facts(facts), spec(spec), options(options), range(range),
        joined(joinedOps(problem, facts)) {}

  Candidates run();

private:
  /// Stages of less than a layer are for those who ask for them.
  int64_t mostStages(const std::optional<int64_t> &pinned) const {
    int64_t starts = 1;
    for (OpId op = 1; op <= facts.lastForward; ++op)
      starts += cutApart(joined, op) == nullptr;
    return pinned || range.layers == 0 ? starts : std::min(starts, range.layers + 2);
  }
  static std::vector<int64_t> divisors(int64_t number, std::optional<int64_t> pinned,
                                       int64_t most) {
    std::vector<int64_t> list, large; // those up to the root, and those above it
    for (int64_t divisor = 1; divisor * divisor <= number; ++divisor)
      if (number % divisor == 0) {
        list.push_back(divisor);
        if (divisor * divisor != number)
          large.push_back(number / divisor);
      }
    list.insert(list.end(), large.rbegin(), large.rend());
    std::erase_if(list,
                  [&](int64_t divisor) { return pinned ? divisor != *pinned : divisor > most; });
    return list;
  }
  int64_t mostContext() const;
  std::string degreesOf(int64_t tokens) const;
  std::string whyNoContext(int64_t cp) const;
  std::string whyNoExperts(int64_t ep) const;
  std::string whyNotPinned() const;
  std::string whyTooMany() const;
  std::string whyNot(const Degrees &degrees) const;
  std::string whyNotPlaced(const Degrees &degrees) const;
  void addMesh(Degrees degrees);
  bool mayDiffer() const;
  void addGroups(int64_t cp, int64_t ep, std::vector<StageGroup> groups);
  void addGrouped(Degrees degrees);
  void addPinnedGroups();
  bool suits(const Degrees &degrees);
  std::string cannotShare(const Degrees &degrees);
  bool shares(Degrees &degrees);
  int64_t mostSamples() const;
  std::string tooFewOps(int64_t most, int64_t stages) const;
  int64_t keptBy(const Degrees &degrees) const;
  void addSchedule(Degrees degrees, ScheduleKind kind, int64_t chunks);
  void addSchedules(Degrees degrees);
  std::vector<int64_t> microBatches(int64_t samples) const;
  std::string cannotCut(int64_t samples, const Degrees &degrees) const;

  const Problem &problem;
  const ProblemFacts &facts;
  const Spec &spec;
  const SearchOptions &options;
  const SearchRange &range;
  const std::vector<JoinedOps> joined; ///< by stages
  Candidates result;
  std::set<int64_t> unshared;                      ///< degrees of dp that zero_group doesn't divide
  std::map<std::array<int64_t, 3>, bool> suitable; ///< by dp, cp and ep of a group of stages
};

} // namespace dtc::plan
