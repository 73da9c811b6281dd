#include "MeshTransfer.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <numeric>

using namespace mlir;

namespace dtc::stages {
namespace {

using Index = std::vector<int64_t>;

int64_t count(ArrayRef<int64_t> pieces) {
  int64_t product = 1;
  for (int64_t each : pieces)
    product *= each;
  return product;
}

/// Row by row.
int64_t elementAt(const Index &offset, const Index &shape) {
  int64_t element = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    element = element * shape[dim] + offset[dim];
  return element;
}

/// The place of a piece in the grid of a shard's, row by row.
int64_t placeOf(const Index &offset, const Index &shard, const Index &piece,
                ArrayRef<int64_t> pieces) {
  int64_t place = 0;
  for (size_t dim = 0; dim < piece.size(); ++dim)
    place = place * pieces[dim] + (offset[dim] - shard[dim]) / piece[dim];
  return place;
}

class Transfer {
public:
  Transfer(ArrayRef<int64_t> shape, const TransferEnd &from, const TransferEnd &to)
      : shape(shape.begin(), shape.end()), from(from), to(to) {}

  std::optional<MeshTransfer> run() {
    if (!findPieces())
      return std::nullopt;
    for (size_t position = 0; position < from.ranks.size(); ++position)
      holders[offsetOf(from, position)].push_back(position);
    result.senders.assign(count(result.received), SmallVector<int32_t>(to.ranks.size(), -1));
    for (size_t position = 0; position < to.ranks.size(); ++position)
      addReceiver(position);
    addReceivers();
    result.sentBegins = beginsOf(from, result.sent);
    result.receivedBegins = beginsOf(to, result.received);
    return std::move(result);
  }

private:
  Index offsetOf(const TransferEnd &end, size_t position) const {
    return end.sharding.localOffset(shape, end.mesh, static_cast<int64_t>(position));
  }

  /// Where a piece of a shard begins in the whole.
  Index pieceAt(Index start, int64_t place, ArrayRef<int64_t> pieces) const {
    for (size_t dim = start.size(); dim-- > 0; place /= pieces[dim])
      start[dim] += place % pieces[dim] * piece[dim];
    return start;
  }

  std::vector<SmallVector<int64_t>> beginsOf(const TransferEnd &end,
                                             ArrayRef<int64_t> pieces) const {
    std::vector<SmallVector<int64_t>> begins(count(pieces));
    for (int64_t place = 0; place < count(pieces); ++place)
      for (size_t position = 0; position < end.ranks.size(); ++position)
        begins[place].push_back(elementAt(pieceAt(offsetOf(end, position), place, pieces), shape));
    return begins;
  }

  bool findPieces() {
    Index sent = from.sharding.localShape(shape, from.mesh);
    Index received = to.sharding.localShape(shape, to.mesh);
    for (auto [a, b] : llvm::zip_equal(sent, received)) {
      piece.push_back(std::max<int64_t>(1, std::gcd(a, b)));
      result.sent.push_back(a / piece.back());
      result.received.push_back(b / piece.back());
    }
    shard = std::move(sent);
    return count(result.sent) <= kMostPieces && count(result.received) <= kMostPieces;
  }

  /// One after another of the ranks that want the same takes the next of those that have it.
  void addReceiver(size_t position) {
    Index start = offsetOf(to, position);
    size_t turn = wanted[start]++;
    for (int64_t place = 0; place < count(result.received); ++place) {
      Index offset = pieceAt(start, place, result.received), holder = offset;
      for (size_t dim = 0; dim < holder.size(); ++dim)
        holder[dim] -= holder[dim] % shard[dim];
      const std::vector<size_t> &alike = holders.at(holder);
      size_t sender = alike[turn % alike.size()];
      result.senders[place][position] = static_cast<int32_t>(from.ranks[sender]);
      given[{placeOf(offset, holder, piece, result.sent), sender}].push_back(
          static_cast<int32_t>(to.ranks[position]));
    }
  }

  void addReceivers() {
    size_t most = 0;
    for (const auto &[key, ranks] : given)
      most = std::max(most, ranks.size());
    for (int64_t place = 0; place < count(result.sent); ++place)
      for (size_t turn = 0; turn < most; ++turn) {
        SmallVector<int32_t> &list = result.receivers.emplace_back(from.ranks.size(), -1);
        for (size_t sender = 0; sender < from.ranks.size(); ++sender)
          if (auto known = given.find({place, sender});
              known != given.end() && turn < known->second.size())
            list[sender] = known->second[turn];
      }
  }

  Index shape, piece, shard; ///< of the whole, of a piece and of a sender's shard
  const TransferEnd &from, &to;
  std::map<Index, std::vector<size_t>> holders; ///< positions by where their shards begin
  std::map<Index, size_t> wanted;               ///< how many receivers had the same shard so far
  /// By piece and position of the sender: the receivers, in their order.
  std::map<std::pair<int64_t, size_t>, std::vector<int32_t>> given;
  MeshTransfer result;
};

} // namespace

std::optional<MeshTransfer> transferBetween(ArrayRef<int64_t> shape, const TransferEnd &from,
                                            const TransferEnd &to) {
  return Transfer(shape, from, to).run();
}

} // namespace dtc::stages
