#include "dtc/Lower/Pieces.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Exec/Exec.h"

#include <map>

using namespace mlir;
namespace crossing = dtc::dist::crossing;

namespace dtc::lower {
namespace {

class PieceChecker {
public:
  LogicalResult run(ArrayRef<ModuleOp> roles) {
    for (ModuleOp role : roles)
      if (failed(enter(role)))
        return failure();
    for (const auto &[way, both] : ways)
      if (both.sent != both.received)
        return both.module->emitError("rank ")
               << way.from << " sends other pieces of '" << way.message << "' than rank " << way.to
               << " receives";
    return success();
  }

private:
  /// What one rank sends another of a value.
  struct Way {
    std::string message;
    int32_t from, to;
    auto operator<=>(const Way &) const = default;
  };
  /// The first element of each piece and how many there are, in their order.
  using Pieces = std::vector<std::pair<int64_t, int64_t>>;
  struct Ends {
    Operation *module = nullptr;
    Pieces sent, received;
  };

  LogicalResult enter(ModuleOp role) {
    auto ranks = role->getAttrOfType<DenseI32ArrayAttr>(exec::ExecDialect::kRanks);
    for (auto function : role.getOps<func::FuncOp>())
      for (Operation &op : function.front()) {
        if (auto send = dyn_cast<exec::SendOp>(op)) {
          for (Value value : send.getInputs())
            if (failed(enter(ranks, &op, send.getPeers(), argumentAttributes(function, value),
                             value.getType(), /*sends=*/true)))
              return failure();
        } else if (auto receive = dyn_cast<exec::ReceiveOp>(op)) {
          for (Value value : receive.getResults())
            if (failed(enter(ranks, &op, receive.getPeers(), resultAttributes(function, value),
                             value.getType(), /*sends=*/false)))
              return failure();
        }
      }
    return success();
  }

  static DictionaryAttr argumentAttributes(func::FuncOp function, Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? function.getArgAttrDict(argument.getArgNumber()) : DictionaryAttr();
  }

  static DictionaryAttr resultAttributes(func::FuncOp function, Value value) {
    for (OpOperand &use : value.getUses())
      if (isa<func::ReturnOp>(use.getOwner()))
        return function.getResultAttrDict(use.getOperandNumber());
    return {};
  }

  LogicalResult enter(DenseI32ArrayAttr ranks, Operation *op, ArrayRef<int32_t> peers,
                      DictionaryAttr attributes, Type type, bool sends) {
    auto begins = attributes ? attributes.getAs<ArrayAttr>(crossing::kBegins) : ArrayAttr();
    if (!begins)
      return success(); // all positions send to the same ones
    auto message = attributes.getAs<StringAttr>(crossing::kMessage);
    ArrayRef<int64_t> first = cast<DenseI64ArrayAttr>(begins[0]).asArrayRef();
    if (!ranks || !message || static_cast<size_t>(ranks.size()) != peers.size() ||
        first.size() != peers.size())
      return op->emitOpError("has a piece of a message, but not of each rank");
    for (auto [own, peer, begin] : llvm::zip_equal(ranks.asArrayRef(), peers, first)) {
      if (peer < 0)
        continue;
      Way way{message.str(), sends ? own : peer, sends ? peer : own};
      Ends &ends = ways[way];
      ends.module = op->getParentOfType<ModuleOp>();
      (sends ? ends.sent : ends.received)
          .emplace_back(begin, cast<RankedTensorType>(type).getNumElements());
    }
    return success();
  }

  std::map<Way, Ends> ways;
};

} // namespace

LogicalResult checkPieces(ArrayRef<ModuleOp> roles) { return PieceChecker().run(roles); }

} // namespace dtc::lower
