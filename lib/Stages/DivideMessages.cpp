#include "dtc/Stages/Stages.h"

#include "dtc/Dialect/Dist/StageOps.h"

using namespace mlir;
using namespace dtc::graph;
namespace crossing = dtc::dist::crossing;

namespace dtc::stages {
namespace {

/// Cuts what a partitioned function sends into pieces, and puts together what it receives.
class MessageDivider {
public:
  explicit MessageDivider(func::FuncOp function) : function(function) {}

  void run() {
    for (unsigned i = function.getNumArguments(); i-- > 0;)
      if (DictionaryAttr attributes = function.getArgAttrDict(i);
          attributes && attributes.contains(crossing::kSenders))
        joinArgument(i, attributes);
    for (unsigned i = function.getNumResults(); i-- > 0;)
      if (DictionaryAttr attributes = function.getResultAttrDict(i);
          attributes && attributes.contains(crossing::kReceivers))
        cutResult(i, attributes);
  }

private:
  static SmallVector<int64_t> piecesOf(DictionaryAttr attributes) {
    return SmallVector<int64_t>(
        attributes.getAs<DenseI64ArrayAttr>(crossing::kPieces).asArrayRef());
  }

  static int64_t count(ArrayRef<int64_t> pieces) {
    int64_t product = 1;
    for (int64_t each : pieces)
      product *= each;
    return product;
  }

  static RankedTensorType pieceType(Type shard, ArrayRef<int64_t> pieces) {
    auto type = cast<RankedTensorType>(shard);
    SmallVector<int64_t> shape(type.getShape());
    for (auto [size, parts] : llvm::zip_equal(shape, pieces))
      size /= parts;
    return type.clone(shape);
  }

  /// Of one piece of a message: its name, and who is on the other end.
  DictionaryAttr attributesOf(DictionaryAttr whole, int64_t place, StringRef peers,
                              ArrayRef<Attribute> lists) {
    Builder builder(function.getContext());
    NamedAttrList attributes(whole);
    RoleAttr role = whole.getAs<RoleAttr>(GraphDialect::kRole);
    std::string name = (role.getName() + " piece " + Twine(place)).str();
    attributes.set(GraphDialect::kRole, RoleAttr::get(function.getContext(), role.getKind(), name,
                                                      std::nullopt, std::nullopt));
    attributes.set(peers, builder.getArrayAttr(lists));
    Attribute begins = whole.getAs<ArrayAttr>(crossing::kBegins)[place];
    attributes.set(crossing::kBegins, builder.getArrayAttr(begins));
    attributes.erase(crossing::kPieces);
    attributes.erase(dist::DistDialect::kSharding); // a piece is no shard
    return attributes.getDictionary(function.getContext());
  }

  void joinArgument(unsigned index, DictionaryAttr whole) {
    SmallVector<int64_t> pieces = piecesOf(whole);
    auto senders = whole.getAs<ArrayAttr>(crossing::kSenders);
    BlockArgument old = function.getArgument(index);
    RankedTensorType type = pieceType(old.getType(), pieces);
    SmallVector<Value> values;
    for (int64_t place = 0; place < count(pieces); ++place) {
      unsigned at = index + 1 + static_cast<unsigned>(place);
      (void)function.insertArgument(
          at, type, attributesOf(whole, place, crossing::kSenders, senders[place]), old.getLoc());
      values.push_back(function.getArgument(at));
    }
    OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
    // Row by row: the last dimension's pieces are neighbours.
    for (size_t dim = pieces.size(); dim-- > 0;)
      if (pieces[dim] > 1)
        joinAlong(builder, static_cast<int64_t>(dim), pieces[dim], values);
    old.replaceAllUsesWith(values.front());
    (void)function.eraseArgument(index);
  }

  static void joinAlong(OpBuilder &builder, int64_t dim, int64_t parts,
                        SmallVector<Value> &values) {
    SmallVector<Value> joined;
    for (size_t first = 0; first < values.size(); first += static_cast<size_t>(parts)) {
      ArrayRef<Value> row = ArrayRef(values).slice(first, static_cast<size_t>(parts));
      auto type = cast<RankedTensorType>(row.front().getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[dim] *= parts;
      joined.push_back(
          ConcatOp::create(builder, row.front().getLoc(), type.clone(shape), row, dim));
    }
    values = std::move(joined);
  }

  void cutResult(unsigned index, DictionaryAttr whole) {
    SmallVector<int64_t> pieces = piecesOf(whole);
    ArrayRef<Attribute> receivers = whole.getAs<ArrayAttr>(crossing::kReceivers).getValue();
    Operation *terminator = function.front().getTerminator();
    Value value = terminator->getOperand(index);
    RankedTensorType type = pieceType(value.getType(), pieces);
    OpBuilder builder(terminator);
    const int64_t all = count(pieces);
    const size_t turns = receivers.size() / static_cast<size_t>(all);
    for (int64_t place = 0; place < all; ++place) {
      unsigned at = index + 1 + static_cast<unsigned>(place);
      (void)function.insertResult(
          at, type,
          attributesOf(whole, place, crossing::kReceivers, receivers.slice(place * turns, turns)));
      terminator->insertOperands(at,
                                 all == 1 ? value : pieceAt(builder, value, type, pieces, place));
    }
    terminator->eraseOperand(index);
    (void)function.eraseResult(index);
  }

  static Value pieceAt(OpBuilder &builder, Value shard, RankedTensorType type,
                       ArrayRef<int64_t> pieces, int64_t place) {
    SmallVector<int64_t> offsets(pieces.size()), strides(pieces.size(), 1);
    for (size_t dim = pieces.size(); dim-- > 0; place /= pieces[dim])
      offsets[dim] = place % pieces[dim] * type.getDimSize(dim);
    return SliceOp::create(builder, shard.getLoc(), type, shard,
                           builder.getDenseI64ArrayAttr(offsets),
                           builder.getDenseI64ArrayAttr(strides));
  }

  func::FuncOp function;
};

} // namespace

void divideMessages(ModuleOp rank) {
  for (auto function : rank.getOps<func::FuncOp>())
    MessageDivider(function).run();
}

} // namespace dtc::stages
