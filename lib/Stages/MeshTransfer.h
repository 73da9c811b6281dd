// How a value gets from the ranks of one mesh to those of another.
//
// Each rank of the receiving mesh gets its shard in pieces, each of which one rank of the sending
// mesh has. Pieces are as large as divides the shards of both. Rows of <dp=2, tp=2> for <dp=4>, and
// back:
//
//   ranks 0 1 | 2 3   have the rows 0-3 | 4-7        ranks 4 5 6 7   want 0-1, 2-3, 4-5, 6-7
//   pieces            two of a sender's shard: 0 sends to 4 and 5, 2 to 6 and 7
//   back              a receiver's shard is two pieces: 0 and 1 get theirs from 4 and from 5
//
// Ranks that have the same take turns. With tp=2 also on the receiving side, 0 sends to the first
// and 1 to the second of those that want the same.
//
// Messages are in an order in which they can be sent one at a time. A sender goes by piece, then by
// its receivers of it, and a receiver by piece. Both go through their pieces in the order in which
// these lie in the whole. All messages by piece of the whole, then by receiver, are in the order of
// every rank.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include <optional>

namespace dtc::stages {

/// A value on one mesh: where it is sent from, or wanted.
struct TransferEnd {
  sharding::TensorSharding sharding; ///< nothing pending
  const sharding::Mesh &mesh;
  llvm::ArrayRef<int64_t> ranks; ///< world ranks, by position on the mesh
};

inline constexpr int64_t kMostPieces = 256;

using RankLists = std::vector<llvm::SmallVector<int32_t>>;

struct MeshTransfer {
  /// By dimension: into how many pieces a sender's shard is cut, and of how many one of the
  /// receiver's is made.
  llvm::SmallVector<int64_t> sent, received;
  /// By piece and position: which element of the whole it begins with, row-major.
  std::vector<llvm::SmallVector<int64_t>> sentBegins, receivedBegins;
  /// As many lists for each piece: who gets it from each sender, -1: nobody.
  RankLists receivers;
  RankLists senders; ///< a list for each piece of the receiver's shard
};

/// None where a shard would be cut into more than kMostPieces.
std::optional<MeshTransfer> transferBetween(llvm::ArrayRef<int64_t> shape, const TransferEnd &from,
                                            const TransferEnd &to);

} // namespace dtc::stages
