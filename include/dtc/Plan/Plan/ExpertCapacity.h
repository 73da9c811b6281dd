// How many slots experts have for the rows that choose them (Graph/SlotOps.td).
//
// A group is a sample, or a rank's part of one under context parallelism. Of a group of 32 tokens
// that choose 2 of 4 experts each, 16 rows go to each expert if all are chosen equally often. The
// factor scales that, as those of GShard and of Switch do:
//
//   capacity=1.25   20 slots for each expert
//   capacity=2      32: no expert can be chosen by more tokens than there are, so this is exact
//   capacity=worst  as many as rows could ever need, for the experts of a rank together, or on GPUs
//                   for each; exact
//   capacity=tiles  as many as the rows of all experts of a rank ever fill, where those of each
//                   begin a tile; exact
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace dtc::plan {

struct ExpertCapacity {
  double factor = 0; ///< 0: the worst case
  bool inTiles = false; ///< of which each belongs to an expert

  bool isWorstCase() const { return factor == 0 && !inTiles; }
  bool operator==(const ExpertCapacity &) const = default;
  auto operator<=>(const ExpertCapacity &other) const {
    if (auto order = inTiles <=> other.inTiles; order != 0)
      return order;
    return std::strong_order(factor, other.factor);
  }
};

/// What becomes of rows that find no slot with their expert. Error: the run ends before it goes on
/// with them. Drop: the expert gives zeros for them, and the log counts them.
enum class Overflow : uint8_t { Error, Drop };

/// "worst", "tiles" or "1.25"
std::string name(const ExpertCapacity &capacity);
/// Nothing for what is neither `worst` nor `tiles` nor a number of at least 0.01 and at most
/// 10,000.
std::optional<ExpertCapacity> capacityFromName(const std::string &name);

} // namespace dtc::plan
