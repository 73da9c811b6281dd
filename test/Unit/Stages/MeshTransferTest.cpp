#include "MeshTransfer.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

using namespace dtc;
using namespace dtc::stages;
using sharding::Mesh;
using sharding::TensorSharding;

namespace {

/// A mesh whose ranks are numbered from `first` on.
struct End {
  Mesh mesh;
  TensorSharding sharding;
  std::vector<int64_t> ranks;

  End(std::vector<int64_t> sizes, std::vector<sharding::AxisList> dims, int64_t first) {
    for (size_t i = 0; i < sizes.size(); ++i)
      mesh.axes.push_back({"a" + std::to_string(i), "dp", sizes[i]});
    sharding.dims = std::move(dims);
    ranks.resize(static_cast<size_t>(mesh.devices()));
    std::iota(ranks.begin(), ranks.end(), first);
  }
  operator TransferEnd() const { return {sharding, mesh, ranks}; }
};

/// One message: who, to whom, and the piece of its own that the end means, row by row.
struct Message {
  int32_t peer;
  int64_t piece;
};
using Queues = std::map<int32_t, std::vector<Message>>; ///< by rank, in its order

int64_t count(llvm::ArrayRef<int64_t> pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), int64_t{1}, std::multiplies<>());
}

/// As functions have them: a list of peers after another, each rank at its position.
Queues queuesOf(const RankLists &lists, const End &end, int64_t pieces) {
  Queues queues;
  auto turns = static_cast<int64_t>(lists.size()) / pieces;
  for (size_t i = 0; i < lists.size(); ++i)
    for (size_t position = 0; position < end.ranks.size(); ++position)
      if (lists[i][position] >= 0)
        queues[static_cast<int32_t>(end.ranks[position])].push_back(
            {lists[i][position], static_cast<int64_t>(i) / turns});
  return queues;
}

/// Where a piece of a rank's shard begins in the whole.
std::vector<int64_t> offsetOf(const End &end, int32_t rank, llvm::ArrayRef<int64_t> shape,
                              llvm::ArrayRef<int64_t> pieces, int64_t piece) {
  std::vector<int64_t> whole(shape.begin(), shape.end());
  auto offset = end.sharding.localOffset(whole, end.mesh, rank - end.ranks.front());
  auto size = end.sharding.localShape(whole, end.mesh);
  for (size_t dim = offset.size(); dim-- > 0; piece /= pieces[dim])
    offset[dim] += piece % pieces[dim] * (size[dim] / pieces[dim]);
  return offset;
}

/// Carries messages out one at a time, each rank in its order; returns how many there were.
int deliverAll(llvm::ArrayRef<int64_t> shape, const End &from, const End &to) {
  auto transfer = transferBetween(shape, from, to);
  EXPECT_TRUE(transfer);
  if (!transfer)
    return 0;
  Queues sends = queuesOf(transfer->receivers, from, count(transfer->sent));
  Queues receives = queuesOf(transfer->senders, to, count(transfer->received));
  for (int64_t rank : to.ranks)
    EXPECT_EQ(static_cast<int64_t>(receives[static_cast<int32_t>(rank)].size()),
              count(transfer->received));
  std::map<int32_t, size_t> sent, received;
  int delivered = 0;
  for (bool moves = true; moves;) {
    moves = false;
    for (auto &[rank, queue] : receives) {
      size_t next = received[rank];
      if (next == queue.size())
        continue;
      int32_t sender = queue[next].peer;
      const std::vector<Message> &other = sends[sender];
      if (sent[sender] == other.size() || other[sent[sender]].peer != rank)
        continue;
      EXPECT_EQ(offsetOf(from, sender, shape, transfer->sent, other[sent[sender]].piece),
                offsetOf(to, rank, shape, transfer->received, queue[next].piece));
      ++sent[sender], ++received[rank], ++delivered;
      moves = true;
    }
  }
  for (auto &[rank, queue] : receives)
    EXPECT_EQ(received[rank], queue.size()) << "rank " << rank << " waits for ever";
  for (auto &[rank, queue] : sends)
    EXPECT_EQ(sent[rank], queue.size()) << "rank " << rank << " sends what nobody takes";
  return delivered;
}

TEST(MeshTransfer, CutsWhatTheReceiverDividesFiner) {
  End from({2, 2}, {{0}, {}}, 0), to({4}, {{0}, {}}, 4);
  auto transfer = transferBetween({8, 3}, from, to);
  ASSERT_TRUE(transfer);
  EXPECT_EQ(llvm::ArrayRef(transfer->sent), (llvm::ArrayRef<int64_t>{2, 1}));
  EXPECT_EQ(llvm::ArrayRef(transfer->received), (llvm::ArrayRef<int64_t>{1, 1}));
  ASSERT_EQ(transfer->senders.size(), 1u);
  EXPECT_EQ(llvm::ArrayRef(transfer->senders[0]), (llvm::ArrayRef<int32_t>{0, 0, 2, 2}));
  EXPECT_EQ(deliverAll({8, 3}, from, to), 4);
  EXPECT_EQ(deliverAll({8, 3}, to, from), 8);
}

TEST(MeshTransfer, TurnsRowsIntoColumns) {
  EXPECT_EQ(deliverAll({4, 6}, End({2}, {{0}, {}}, 0), End({3}, {{}, {0}}, 2)), 6);
}

TEST(MeshTransfer, TakesShardsThatDontDivideEachOther) {
  EXPECT_EQ(deliverAll({12}, End({3}, {{0}}, 0), End({2}, {{0}}, 3)), 6);
}

TEST(MeshTransfer, RefusesTooManyPieces) {
  End from({1}, {{}}, 0), to({512}, {{0}}, 1);
  EXPECT_FALSE(transferBetween({1024}, from, to));
}

TEST(MeshTransfer, OfRandomLayoutsEndsWithEveryPieceInItsPlace) {
  std::mt19937 random(7);
  auto drawn = [&](int64_t first) {
    std::vector<int64_t> sizes(random() % 3 + 1);
    for (int64_t &size : sizes)
      size = int64_t(random() % 3) + 1;
    std::vector<sharding::AxisList> dims(2);
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (size_t dim = random() % 3; dim < 2)
        dims[dim].insert(random() % 2 ? dims[dim].begin() : dims[dim].end(), int(axis));
    return End(sizes, dims, first);
  };
  for (int trial = 0; trial < 500; ++trial) {
    End from = drawn(0), to = drawn(100);
    EXPECT_GT(deliverAll({108, 216}, from, to), 0) << "trial " << trial;
  }
}

} // namespace
