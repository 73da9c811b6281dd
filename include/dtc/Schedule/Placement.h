// Where the stages of a pipeline lie: a table of the stage of each rank and chunk.
//
// Four ranks with two chunks each hold eight stages. In turn, or V-shaped:
//
//            chunk 0  1              chunk 0  1
//   rank 0         0  4                    0  7
//   rank 1         1  5                    1  6
//   rank 2         2  6                    2  5
//   rank 3         3  7                    3  4
//
// In turn a microbatch goes from rank 3 back to rank 0 after stage 3. In the V it turns round. Rank
// 3 hands it from one of its chunks to the other, which costs nothing, and rank 0 holds the first
// and the last stage.
//
// Ranks are numbered as a microbatch first comes to them, and chunks likewise. Stage r lies on rank
// r as its chunk 0 for each of the first stages, one a rank. A rank's stages ascend with its
// chunks. Lower bounds count on that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtc::schedule {

/// Of one stage.
struct Place {
  int32_t rank = -1, chunk = -1; ///< -1: the table doesn't have the stage
  bool operator==(const Place &) const = default;
};

class Placement {
public:
  Placement() = default;
  /// Stages by rank and chunk; as many chunks on each rank.
  explicit Placement(const std::vector<std::vector<int64_t>> &stages);
  /// Chunk c of rank r is stage c * ranks + r.
  static Placement inTurn(int64_t ranks, int64_t chunks);

  int64_t ranks() const { return chunksPerRank > 0 ? stages() / chunksPerRank : 0; }
  int64_t chunks() const { return chunksPerRank; }
  int64_t stages() const { return int64_t(byRank.size()); }
  int64_t stage(int64_t rank, int64_t chunk) const { return byRank[rank * chunksPerRank + chunk]; }
  Place place(int64_t stage) const { return byStage[stage]; }
  int64_t rank(int64_t stage) const { return byStage[stage].rank; }
  /// Whether a stage and the next lie on one rank.
  bool staysAfter(int64_t stage) const { return rank(stage) == rank(stage + 1); }
  bool operator==(const Placement &) const = default;

private:
  int64_t chunksPerRank = 0;
  std::vector<int64_t> byRank; ///< by rank, then chunk: the stage
  std::vector<Place> byStage;
};

/// Why no microbatch can pass through such a table as is said above, in one line;
/// empty: it can.
std::string check(const Placement &placement);

} // namespace dtc::schedule
