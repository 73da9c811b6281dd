// Whom to blame where ranks wait for each other: the last one.
//
//   rank 0 waits for rank 1, rank 1 waits for rank 2, rank 2 waits for nobody   -> rank 2
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace dtc::rt {

/// Where the chain from a rank ends. `next` says for whom a rank waits. In a circle that is a rank
/// of it, the first that comes again.
inline int lastOfChain(int rank, const std::function<std::optional<int>(int)> &next) {
  for (std::set<int> seen; seen.insert(rank).second;)
    rank = next(rank).value_or(rank);
  return rank;
}

/// What to add to words that name a rank, where another one is the last.
inline std::string namingLast(int named, int last) {
  return named == last ? "" : ", which waits for rank: " + std::to_string(last);
}

} // namespace dtc::rt
