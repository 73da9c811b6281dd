// Rows of mixtures get slots before they are planned.
//
// What dispatch and combine enclose (Experts.cpp) is computed row by row, of [sample, row, ...].
// Here the same is built of [sample, part, slot, ...]. Where each rank has a section of the rows it
// is built of [sample, section, part, slot, ...]. One part needs no slots: sections are a reshape
// then.
//
// Where experts have a capacity, each is a part. A slot that has no row holds zeros there, and
// takes part in the products. What it makes is read by nobody, and its gradient is zero.
//
// In tiles, slots of a part are [tile, row of a tile] where they are multiplied. Each tile belongs
// to one expert, that of its first slot.
#include "Reshapes.h"
#include "dtc/Dialect/Graph/SlotOps.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/TokenChoices.h"
#include "dtc/Raise/Passes.h"

#include <cmath>
#include <limits>

#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_EXPERTSLOTS
#include "dtc/Raise/Passes.h.inc"

/// A capacity that gives each expert as many slots as rows could ever choose it.
static constexpr double kWorstOfEach = std::numeric_limits<double>::infinity();

/// Whether zeros stay finite through all that is computed between dispatch and combine, and so do
/// the derivatives there. Then slots without a row may be in products.
static bool keepsZerosFinite(func::FuncOp func) {
  llvm::DenseSet<Value> between;
  for (Operation &op : func.front()) {
    bool reads = llvm::any_of(op.getOperands(), [&](Value v) { return between.contains(v); });
    if (isa<graph::CombineOp>(op) || (!reads && !isa<graph::DispatchOp>(op)))
      continue;
    between.insert_range(op.getResults());
    auto quotient = dyn_cast<arith::DivFOp>(op);
    if (isa<math::SqrtOp, math::RsqrtOp, math::LogOp, math::Log1pOp, math::Log2Op, math::PowFOp>(
            op) ||
        (quotient && between.contains(quotient.getRhs())))
      return false;
  }
  return true;
}

namespace {

class SlotBuilder {
public:
  /// `factor`: of the capacity; 0: the worst case.
  SlotBuilder(func::FuncOp func, int64_t parts, int64_t sections, double factor, bool drops,
              bool inTiles)
      : func(func), parts(parts), sections(sections), factor(factor), drops(drops),
        inTiles(inTiles), rewriter(func.getContext()) {}

  /// Whether experts and rows of all products can be shared out so.
  bool isEven();
  LogicalResult run();

private:
  LogicalResult visit(Operation *op);
  Value sent(Emitter &emit, graph::DispatchOp op);
  Value returned(Emitter &emit, graph::CombineOp op);
  Value rebuilt(Emitter &emit, Operation *op);
  Value product(Emitter &emit, graph::GroupedContractOp op);
  Value productOfEach(Emitter &emit, graph::GroupedContractOp op);
  Value asTiles(Emitter &emit, Value value);
  Value choicesOfTiles(Emitter &emit, Value choices);
  void setSizes(graph::DispatchOp op);
  void returnLost(Emitter &emit, Value choices, Value slot, int64_t experts);
  Value choicesInPart(Emitter &emit, Value choices, int64_t experts);
  Value slotsOf(Emitter &emit, Value choices, int64_t experts);
  Shape inSlots(ArrayRef<int64_t> rows) const;
  Shape leading() const;
  bool haveSlots() const { return parts > 1 || inTiles; }
  int64_t mostOfPart(Value choices, int64_t experts) const;
  int64_t rowsOfToken(Value choices) const;
  Value operandThere(Emitter &emit, Value operand, ArrayRef<int64_t> shape);

  func::FuncOp func;
  int64_t parts, sections; ///< parts: with a capacity, of the op at hand
  double factor;
  bool drops, inTiles;
  PatternRewriter rewriter;
  bool isDense = false;                        ///< products are of all slots of an expert
  int64_t samples = 0, rows = 0, capacity = 0; ///< of the op at hand
  int64_t tile = 1;                            ///< likewise: slots that belong to one expert
  bool isWorstCase = true;                     ///< likewise
  IntegerAttr apart; ///< likewise: rows of a token, where these have slots of their own
  llvm::DenseMap<Value, Value> there;          ///< by value: the same of rows in slots
  llvm::DenseMap<Value, Value> slots;          ///< by choices
  SmallVector<Operation *> replaced;
};

} // namespace

bool SlotBuilder::isEven() {
  bool isEven = true;
  func.walk([&](graph::DispatchOp op) {
    isEven &= (factor > 0 || op.getExperts() % parts == 0) &&
              graph::shapeOf(op.getChoices())[1] % sections == 0;
  });
  return isEven;
}

/// The dimensions in place of [sample, row].
Shape SlotBuilder::leading() const {
  Shape shape = {samples};
  if (sections > 1 || !haveSlots())
    shape.push_back(sections);
  if (haveSlots())
    shape.push_back(parts);
  shape.push_back(capacity);
  return shape;
}

/// How many rows of a section can choose experts of one part. What top_k chooses for a token are
/// different experts, so that a part of fewer gets only some of a token's rows.
int64_t SlotBuilder::mostOfPart(Value choices, int64_t experts) const {
  const int64_t each = rowsOfToken(choices);
  return rows / sections / each * std::min(each, experts / parts);
}

/// Larger tiles read an expert's weights less often, and leave more slots empty: half a tile for
/// each expert, of `average` rows.
static int64_t tileFor(int64_t average) {
  constexpr int64_t least = 8, most = 128, perExpert = 4;
  int64_t tile = least;
  while (tile < most && tile * 2 * perExpert <= average)
    tile *= 2;
  return tile;
}

/// How many tiles so many rows may begin that choose so many experts: each has a last one, which is
/// full only by chance.
static int64_t mostTiles(int64_t rows, int64_t experts, int64_t tile) {
  const int64_t chosen = std::min(rows, experts);
  return (rows - chosen) / tile + chosen;
}

/// How many rows that follow each other are known to choose different experts.
int64_t SlotBuilder::rowsOfToken(Value choices) const {
  const int64_t each = graph::choicesOfToken(choices).value_or(1);
  return each < 1 || rows / sections % each != 0 ? 1 : each;
}

Shape SlotBuilder::inSlots(ArrayRef<int64_t> shape) const {
  Shape result = leading();
  llvm::append_range(result, shape.drop_front(2));
  return result;
}

void SlotBuilder::setSizes(graph::DispatchOp op) {
  const auto experts = static_cast<int64_t>(op.getExperts());
  samples = graph::shapeOf(op)[0];
  rows = graph::shapeOf(op)[1];
  if (factor > 0)
    parts = experts;
  const int64_t worst = mostOfPart(op.getChoices(), experts);
  capacity = worst;
  if (factor > 0 && parts > 1) {
    constexpr double rounding = 1e-9;
    const int64_t inSection = rows / sections;
    double slots = std::ceil(factor * double(inSection) / double(experts) - rounding);
    capacity = static_cast<int64_t>(std::clamp(slots, 1.0, double(worst)));
  }
  isWorstCase = capacity == worst;
  if (inTiles) {
    tile = tileFor(rows / sections / experts);
    capacity = tile * mostTiles(worst, experts / parts, tile);
  }
  const int64_t each = rowsOfToken(op.getChoices());
  apart = !inTiles && capacity * each == rows / sections && (each == 1 || parts == experts)
              ? rewriter.getI64IntegerAttr(each)
              : IntegerAttr();
}

Value SlotBuilder::slotsOf(Emitter &emit, Value choices, int64_t experts) {
  Value &known = slots[choices];
  if (known)
    return known;
  known = graph::ExpertSlotsOp::create(emit, choices.getType(), choices, experts, sections, parts,
                                       capacity, apart,
                                       inTiles ? rewriter.getI64IntegerAttr(tile) : IntegerAttr());
  if (!isWorstCase)
    returnLost(emit, choices, known, experts);
  return known;
}

static std::string nameOf(Location location) {
  auto name = location->findInstanceOf<NameLoc>();
  return name ? name.getName().str() : "";
}

/// The function returns which rows chose an expert that had no slot left for them.
void SlotBuilder::returnLost(Emitter &emit, Value choices, Value slot, int64_t experts) {
  auto compare = [&](arith::CmpIPredicate predicate, Value value, int64_t number) -> Value {
    auto type = tensorType(value);
    auto other = arith::ConstantOp::create(
        emit, DenseElementsAttr::get(type, emit.getIntegerAttr(type.getElementType(), number)));
    return arith::CmpIOp::create(emit, predicate, value, other);
  };
  Value isExpert = arith::AndIOp::create(emit, compare(arith::CmpIPredicate::sge, choices, 0),
                                         compare(arith::CmpIPredicate::slt, choices, experts));
  Value isLost = arith::AndIOp::create(emit, isExpert, compare(arith::CmpIPredicate::slt, slot, 0));
  const unsigned index = func.getNumResults();
  std::string layer = std::to_string(slots.size());
  if (std::string name = nameOf(choices.getLoc()); !name.empty())
    layer += " (" + name + ")";
  auto role = graph::lostRowsRole(func.getContext(), {drops, "layer " + layer});
  func.front().getTerminator()->insertOperands(index, isLost);
  (void)func.insertResult(
      index, isLost.getType(),
      emit.getDictionaryAttr(emit.getNamedAttr(graph::GraphDialect::kRole, role)));
}

static graph::ExpertSlotsOp makerOf(Value slots) {
  return slots.getDefiningOp<graph::ExpertSlotsOp>();
}

Value SlotBuilder::sent(Emitter &emit, graph::DispatchOp op) {
  Shape shape = inSlots(graph::shapeOf(op));
  if (!haveSlots())
    return reshape(emit, op.getInput(), shape);
  Value own = slotsOf(emit, op.getChoices(), op.getExperts());
  return graph::ToSlotsOp::create(emit, tensorType(op).clone(shape), op.getInput(), own,
                                  makerOf(own).getApartAttr(), makerOf(own).getTileAttr());
}

Value SlotBuilder::returned(Emitter &emit, graph::CombineOp op) {
  Value input = there.at(op.getInput());
  if (!haveSlots())
    return reshape(emit, input, graph::shapeOf(op));
  Value own = slotsOf(emit, op.getChoices(), op.getExperts());
  return graph::FromSlotsOp::create(emit, op.getType(), input, own, makerOf(own).getApartAttr(),
                                    makerOf(own).getTileAttr());
}

/// Numbers of experts among those of the slot's part. What is -1 stays below 0.
Value SlotBuilder::choicesInPart(Emitter &emit, Value choices, int64_t experts) {
  if (parts == 1)
    return choices;
  auto type = tensorType(choices);
  int64_t partDim = type.getRank() - 2;
  Value part = graph::IotaOp::create(emit, type, partDim);
  Value first = arith::MulIOp::create(
      emit, part,
      arith::ConstantOp::create(
          emit, DenseElementsAttr::get(
                    type, emit.getIntegerAttr(type.getElementType(), experts / parts))));
  return arith::SubIOp::create(emit, choices, first);
}

/// [..., slot, ...] as [..., tile, row of a tile, ...].
Value SlotBuilder::asTiles(Emitter &emit, Value value) {
  if (!inTiles)
    return value;
  Shape shape(graph::shapeOf(value));
  const size_t slotDim = leading().size() - 1;
  shape[slotDim] = capacity / tile;
  shape.insert(shape.begin() + slotDim + 1, tile);
  return reshape(emit, value, shape);
}

/// The first slot of a tile has a row wherever any of it has one.
Value SlotBuilder::choicesOfTiles(Emitter &emit, Value choices) {
  if (!inTiles)
    return choices;
  Shape shape = leading(), offsets(shape.size(), 0), strides(shape.size(), 1);
  shape.back() = capacity / tile;
  strides.back() = tile;
  return graph::SliceOp::create(emit, tensorType(choices).clone(shape), choices, offsets, strides);
}

/// Each expert is a part: its slots are multiplied with its weights, as in GShard's layer.
Value SlotBuilder::productOfEach(Emitter &emit, graph::GroupedContractOp op) {
  ArrayRef<int64_t> rowIndices = op.getChoiceIndices();
  auto experts = static_cast<int64_t>(op.getExperts());
  int64_t section = op.getIndexSizes().size();
  auto renumbered = [&](ArrayRef<int64_t> indices) {
    Shape result;
    for (int64_t index : indices) {
      result.push_back(index);
      if (index != rowIndices[0])
        continue;
      if (sections > 1)
        result.push_back(section);
      result.push_back(experts);
    }
    return result;
  };
  auto operand = [&](Value value) {
    auto it = there.find(value);
    return it != there.end() ? it->second : value;
  };
  return graph::ContractOp::create(emit, op.getType().clone(inSlots(graph::shapeOf(op))),
                                   operand(op.getLhs()), operand(op.getRhs()),
                                   renumbered(op.getLhsIndices()), renumbered(op.getRhsIndices()),
                                   renumbered(op.getResultIndices()));
}

/// Indices of rows become those of slots, and each part has its own experts.
Value SlotBuilder::product(Emitter &emit, graph::GroupedContractOp op) {
  ArrayRef<int64_t> rowIndices = op.getChoiceIndices();
  auto experts = static_cast<int64_t>(op.getExperts());
  int64_t free = op.getIndexSizes().size(), section = -1, part = -1;
  Shape leadingIndices = {rowIndices[0]};
  if (sections > 1 || !haveSlots())
    leadingIndices.push_back(section = free++);
  if (haveSlots())
    leadingIndices.push_back(part = free++);
  leadingIndices.push_back(rowIndices[1]);
  Shape ofRows = leadingIndices;
  if (inTiles)
    ofRows.push_back(free++);
  auto renumbered = [&](ArrayRef<int64_t> indices) {
    Shape result;
    for (int64_t index : indices) {
      if (index == rowIndices[0])
        llvm::append_range(result, ofRows);
      else if (index == experts && parts > 1)
        result.append({part, experts});
      else if (index != rowIndices[1])
        result.push_back(index);
    }
    return result;
  };
  auto operand = [&](Value value, ArrayRef<int64_t> indices) -> Value {
    if (auto it = there.find(value); it != there.end())
      return asTiles(emit, it->second);
    Shape shape;
    for (auto [index, size] : llvm::zip_equal(indices, graph::shapeOf(value)))
      if (index == experts && parts > 1)
        shape.append({parts, size / parts});
      else
        shape.push_back(size);
    return reshape(emit, value, shape);
  };
  Value choices = choicesInPart(emit, there.at(op.getChoices()), op.getIndexSizes()[experts]);
  const Shape shape = inSlots(graph::shapeOf(op));
  Shape made = shape;
  if (inTiles) {
    made[leading().size() - 1] = capacity / tile;
    made.insert(made.begin() + leading().size(), tile);
  }
  Value result = graph::GroupedContractOp::create(
      emit, op.getType().clone(made), operand(op.getLhs(), op.getLhsIndices()),
      operand(op.getRhs(), op.getRhsIndices()), choicesOfTiles(emit, choices),
      renumbered(op.getLhsIndices()), renumbered(op.getRhsIndices()),
      renumbered(op.getResultIndices()), leadingIndices, experts);
  return inTiles ? reshape(emit, result, shape) : result;
}

/// A constant for all rows, or what is there already; null where it is neither.
Value SlotBuilder::operandThere(Emitter &emit, Value operand, ArrayRef<int64_t> shape) {
  auto it = there.find(operand);
  return it != there.end() ? it->second : reshapeSplat(emit, operand, shape);
}

static bool startsWith(Value value, ArrayRef<int64_t> sizes) {
  return graph::shapeOf(value).size() >= sizes.size() &&
         graph::shapeOf(value).take_front(sizes.size()) == sizes;
}

/// What is computed row by row, of rows in slots; null where that isn't known.
Value SlotBuilder::rebuilt(Emitter &emit, Operation *op) {
  if (op->getNumResults() != 1)
    return {};
  Value result = op->getResult(0);
  if (!startsWith(result, {samples, rows}))
    return {};
  Shape shape = inSlots(graph::shapeOf(result));
  if (auto grouped = dyn_cast<graph::GroupedContractOp>(op)) {
    bool leads = grouped.getResultIndices().take_front(2) == grouped.getChoiceIndices();
    if (!leads || !there.contains(grouped.getChoices()))
      return {};
    return isDense && parts > 1 ? productOfEach(emit, grouped) : product(emit, grouped);
  }
  if (isa<graph::ReshapeOp>(op))
    return reshape(emit, there.at(op->getOperand(0)), shape);
  if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    bool byRows = gather.getAxis() == 0 && there.contains(gather.getIndices()) &&
                  !there.contains(gather.getTable()) && !gather.getPaddingRow();
    return byRows ? raise::gather(emit, gather.getTable(), there.at(gather.getIndices()), 0)
                  : Value();
  }
  if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    if (!startsWith(slice.getInput(), {samples, rows}))
      return {};
    Shape offsets(leading().size(), 0), strides(leading().size(), 1);
    llvm::append_range(offsets, slice.getOffsets().drop_front(2));
    llvm::append_range(strides, slice.getStrides().drop_front(2));
    return graph::SliceOp::create(emit, tensorType(result).clone(shape), there.at(slice.getInput()),
                                  offsets, strides);
  }
  if (!actsElementwise(op))
    return {};
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    if (operands.emplace_back(operandThere(emit, operand, shape)); !operands.back())
      return {};
  return rebuildHere(rewriter, op, operands, shape)->getResult(0);
}

LogicalResult SlotBuilder::visit(Operation *op) {
  rewriter.setInsertionPoint(op);
  Emitter emit(op->getLoc(), rewriter);
  if (auto dispatch = dyn_cast<graph::DispatchOp>(op)) {
    setSizes(dispatch);
    there[dispatch.getResult()] = sent(emit, dispatch);
    replaced.push_back(op);
    return success();
  }
  if (llvm::none_of(op->getOperands(), [&](Value value) { return there.contains(value); }))
    return success();
  if (auto combine = dyn_cast<graph::CombineOp>(op)) {
    combine.getResult().replaceAllUsesWith(returned(emit, combine));
    replaced.push_back(op);
    return success();
  }
  Value result = rebuilt(emit, op);
  if (!result)
    return op->emitError() << "can't be computed where rows have slots with their experts, between "
                              "dispatch and combine: "
                           << op->getName();
  there[op->getResult(0)] = result;
  replaced.push_back(op);
  return success();
}

LogicalResult SlotBuilder::run() {
  isDense = factor > 0 && keepsZerosFinite(func);
  for (Operation &op : llvm::make_early_inc_range(func.front()))
    if (failed(visit(&op)))
      return failure();
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  return success();
}

namespace {
struct ExpertSlots : impl::ExpertSlotsBase<ExpertSlots> {
  using ExpertSlotsBase::ExpertSlotsBase;

  void runOnOperation() override {
    auto func = graph::findFunction(getOperation(), graph::kForward);
    if (!func || func.isExternal())
      return;
    const bool inTiles = tiles && capacity <= 0;
    if (inTiles && !keepsZerosFinite(func)) {
      func.emitError("slots in tiles are for experts of which zeros stay finite");
      return signalPassFailure();
    }
    const bool isOfEach = each && !tiles && capacity <= 0 && keepsZerosFinite(func);
    if (parts <= 1 && sections <= 1 && capacity <= 0 && !isOfEach && !inTiles)
      return;
    SlotBuilder builder(func, std::max<int64_t>(1, parts), std::max<int64_t>(1, sections),
                        isOfEach ? kWorstOfEach : capacity, drops, inTiles);
    if (builder.isEven() && failed(builder.run()))
      signalPassFailure();
  }
};
} // namespace

} // namespace dtc::raise
