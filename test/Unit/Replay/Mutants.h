// Faults planted into right programs, at every place where one of a kind can be planted.
//
// A place is chosen so that the program is certainly wrong with the fault. An instruction is
// dropped only where something uses what it computes. A buffer is laid over another only while that
// is needed.
#pragma once

#include "dtc/Replay/ReplayPrograms.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dtc::replay::test {

struct Mutant {
  std::string kind, place;
  size_t role = 0;
  std::function<void(rt::fbs::ProgramT &)> plant; ///< into the role's program
};

/// Of each kind and role at most `most`, spread over all places.
std::vector<Mutant> makeMutants(const std::vector<Role> &roles, size_t most);

struct MutantCount {
  size_t planted = 0, found = 0;
};

/// By kind; what isn't found is appended to `missed`.
std::map<std::string, MutantCount> replayMutants(const std::vector<Role> &roles, size_t most,
                                                 std::vector<std::string> &missed);

} // namespace dtc::replay::test
