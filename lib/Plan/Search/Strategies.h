// The strategies of the search, in the order in which a round runs them.
//
// A search has up to four rounds, each with all strategies, until one of them finds a plan:
//
//   shardings solved for speed     states on the devices
//   shardings that hold less       states on the devices
//   shardings solved for speed     states offloaded
//   shardings that hold less       states offloaded
//
// Where none of the plans that a round found fits when it is complete, the round runs again. From
// then on each plan is confirmed before it counts (ConfirmFit.cpp).
//
// Before them comes a look at the plans that hold least. Where all of them are far short of memory,
// the rounds are left out (isOutOfReach).
//
// Each strategy is a function on the state, in a file of its own that says what it tries. What one
// has found bounds what the next ones try. SearchOptions::without leaves strategies out, for
// measuring what they gain.
#pragma once

#include "TryCandidate.h"

namespace dtc::plan {

struct SearchRound {
  /// Those that a candidate may have.
  std::vector<ShardVariant> shardings;
  Offload offload = Offload::None;
  /// States are offloaded as nothing fits without.
  bool isLastResort = false;
};

void searchCandidates(SearchState &state, const SearchRound &round);
void searchContextExchange(SearchState &state, const SearchRound &round);
/// What candidates have before it.
ContextExchange usualExchange(const SearchState &state, int64_t cp);
/// Whether it has a choice.
bool choosesContextExchange(const SearchState &state);
void searchSmallerShardings(SearchState &state, const SearchRound &round);
void searchOffloaded(SearchState &state, const SearchRound &round);
void searchRegathered(SearchState &state, const SearchRound &round);
void searchKept(SearchState &state, const SearchRound &round);
/// Whether what ranks gather of activations may be gathered again in the backward pass.
bool mayRegather(const SearchState &state, const Degrees &degrees);

struct Strategy {
  SearchStrategy name;
  void (*run)(SearchState &state, const SearchRound &round);
};
inline constexpr Strategy kStrategies[] = {
    {SearchStrategy::Candidates, searchCandidates},
    {SearchStrategy::Candidates, searchContextExchange}, // left out by a pin: cp_by=keys
    {SearchStrategy::SmallerShardings, searchSmallerShardings},
    {SearchStrategy::Offloaded, searchOffloaded},
    {SearchStrategy::Candidates, searchRegathered}, // left out by a pin: regather=off
    {SearchStrategy::Candidates, searchKept},       // left out by a pin: kept=1
};

/// The degrees that are candidates.
std::vector<Degrees> listCandidates(SearchState &state);
/// Takes those that there are plans for as candidates, with their floors.
void addCandidates(SearchState &state, const std::vector<Degrees> &list);

/// Whether all devices together can hold parameters and gradients, each once.
bool canHoldModel(const SearchState &state);
/// A way to try candidates with these shardings.
Attempt attemptWith(std::vector<ShardVariant> shardings);

/// Finds candidates and runs all rounds; the best plan with the runners-up, or why there is none.
SearchOutcome runStrategies(SearchState &state);

/// With all that saves memory.
Degrees withLeast(const SearchState &state, Degrees degrees, Offload offload);
/// What comes closest to fitting, for the report and for pinned plans, by what it is short of.
void searchClosest(SearchState &state);

/// Whether a candidate is so short of memory, with all that saves it, that no plan of its mesh and
/// schedule can fit. Neither another sharding nor another microbatch helps then. Where the search
/// confirms, the complete plan must be too large.
bool isOutOfReach(SearchState &state, const Degrees &candidate, Offload offload);
/// Whether even the plan that holds least, with all that saves memory, is so short of it that no
/// other can fit. True: `found` is what searchClosest finds.
bool isOutOfReach(SearchState &state);

} // namespace dtc::plan
