#include "ChunkRecomputation.h"

#include <algorithm>
#include <numeric>

namespace dtc::plan {

namespace {

/// The blocks of a rank in the order in which they are taken.
struct Rank {
  struct Block {
    size_t run;
    int end;
  };
  std::vector<Block> blocks;
  size_t fewest = 0, enough = 0; ///< how many have to be recomputed at least, and do for certain
};

} // namespace

static Rank rankOf(const schedule::Schedule &schedule, const std::vector<std::vector<int>> &ends,
                   int64_t rank) {
  std::vector<size_t> chunks(static_cast<size_t>(schedule.shape.chunks));
  std::iota(chunks.begin(), chunks.end(), size_t{0});
  const std::vector<int32_t> &slots = schedule.slots[rank];
  std::stable_sort(chunks.begin(), chunks.end(),
                   [&](size_t a, size_t b) { return slots[a] > slots[b]; });
  Rank result;
  for (size_t chunk : chunks) {
    auto run = static_cast<size_t>(schedule.stage(rank, static_cast<int64_t>(chunk)));
    for (int end : ends[run])
      result.blocks.push_back({run, end});
  }
  result.enough = result.blocks.size();
  return result;
}

static void recompute(const Rank &rank, size_t count, StageCosts::Runs &runs) {
  for (const Rank::Block &block : rank.blocks)
    runs[block.run].kept = runs[block.run].begin;
  for (size_t i = 0; i < count; ++i)
    runs[rank.blocks[i].run].kept = rank.blocks[i].end;
}

bool recomputeFewest(const schedule::Schedule &schedule,
                     const std::vector<std::vector<int>> &ends, const RanksFit &fits,
                     StageCosts::Runs &runs) {
  std::vector<Rank> ranks;
  for (int64_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    ranks.push_back(rankOf(schedule, ends, rank));
    recompute(ranks.back(), ranks.back().enough, runs);
  }
  std::vector<bool> held = fits(runs);
  if (std::find(held.begin(), held.end(), false) != held.end())
    return false;
  auto isOpen = [](const Rank &rank) { return rank.fewest < rank.enough; };
  // All ranks at once, as their costs are made together.
  while (std::any_of(ranks.begin(), ranks.end(), isOpen)) {
    for (const Rank &rank : ranks)
      recompute(rank, (rank.fewest + rank.enough) / 2, runs);
    held = fits(runs);
    for (size_t i = 0; i < ranks.size(); ++i) {
      Rank &rank = ranks[i];
      size_t middle = (rank.fewest + rank.enough) / 2;
      if (isOpen(rank))
        (held[i] ? rank.enough : rank.fewest) = held[i] ? middle : middle + 1;
    }
  }
  for (const Rank &rank : ranks)
    recompute(rank, rank.enough, runs);
  return true;
}

} // namespace dtc::plan
