// Memory of attention that a library of a GPU computes as it is.
#pragma once

#include <cstdint>

namespace dtc::sharding {

/// What a library needs beside the tensors of an attention that it computes as it is. For two heads
/// of 16 queries, of one sample each, in tiles of 128 queries with 132 bytes each:
///
///   2 * 128 * 132   also on each of two ranks that share these queries
struct AttentionWorkspace {
  int64_t fixed = 0;
  int64_t perQuery = 0;     ///< of each head
  int64_t perSharedKey = 0; ///< of each head of queries, where several share one of keys
  int64_t tile = 1;         ///< in whole tiles of so many queries, and of so many keys
  int64_t bytes(int64_t samples, int64_t heads, int64_t keyHeads, int64_t queries,
                int64_t keys) const {
    auto inTiles = [&](int64_t length) { return (length + tile - 1) / tile * tile; };
    int64_t ofHead = perQuery * inTiles(queries);
    if (heads != keyHeads)
      ofHead += perSharedKey * inTiles(keys);
    return fixed + samples * heads * ofHead;
  }
  bool operator==(const AttentionWorkspace &) const = default;
};

} // namespace dtc::sharding
