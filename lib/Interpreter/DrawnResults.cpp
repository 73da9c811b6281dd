#include "dtc/Interpreter/DrawnResults.h"

#include "Corner.h"
#include "DrawnWeight.h"
#include "Evaluator.h"

#include "dtc/Dialect/Graph/StepOps.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace mlir;

namespace dtc::interpreter {
namespace {

using graph::RoleKind;
using graph::shapeOf;

/// Of positions and features. A layer of a model with 70 billion parameters then takes a few
/// million steps.
constexpr int64_t kMostOfDimension = 4;
constexpr double kMostSteps = 2e8;
/// Weights are moved by as much as files of one model differ. Results may move by this, relative to
/// the largest; else something was chosen by rounding.
constexpr double kNudge = 1e-6, kMostMoved = 5e-5;

/// Files of one model may have inputs in another order. So these are numbered by what is the same
/// in all files, and by names where several have that.
struct DrawnInput {
  BlockArgument argument;
  std::string content; ///< in words
  std::string name;
  bool isNamed = false; ///< others could be taken for it

  /// Without sizes: those of another file may be of longer sequences.
  auto key() const { return std::pair(shapeOf(argument).size(), content); }
  bool operator<(const DrawnInput &other) const {
    return std::pair(key(), name) < std::pair(other.key(), other.name);
  }
};

double elementsOf(Value value) {
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
}

/// What is known of the corner before anything is computed.
class Reading {
public:
  Reading(func::FuncOp corner, const BufferData &data) : corner(corner), data(data) {
    findConstants();
    findInputs();
  }

  /// What doesn't depend on inputs and weights.
  bool isConstant(Value value) const { return constants.contains(value); }
  bool isConstant(Operation *op) const {
    return llvm::all_of(op->getResults(), [&](Value result) { return isConstant(result); });
  }

  /// Angles and indices are what the file says; any other buffer may be of a later state.
  bool isDrawn(BlockArgument argument) const {
    return isWeight(argument) && isa<FloatType>(getElementTypeOrSelf(argument.getType())) &&
           !angles.contains(argument);
  }
  DenseElementsAttr dataOf(BlockArgument argument) const {
    return data(roleOf(argument).getName().str());
  }
  graph::RoleAttr roleOf(BlockArgument argument) const {
    return graph::getArgRole(corner, argument.getArgNumber());
  }
  bool isWeight(BlockArgument argument) const {
    graph::RoleAttr role = roleOf(argument);
    return role.getKind() == RoleKind::Parameter || role.getKind() == RoleKind::Buffer;
  }
  /// In the order of their numbers.
  ArrayRef<DrawnInput> drawnInputs() const { return inputs; }
  int64_t numberOf(BlockArgument input) const {
    return llvm::find_if(inputs, [&](const DrawnInput &each) { return each.argument == input; }) -
           inputs.begin();
  }
  /// What an index must be below; null: it is no index.
  IntegerAttr limitOf(BlockArgument input) const {
    return func::FuncOp(corner).getArgAttrOfType<IntegerAttr>(input.getArgNumber(),
                                                              graph::GraphDialect::kLimit);
  }

private:
  /// Masks are all alike.
  void findInputs() {
    constexpr const char *kMask = " of a mask";
    for (BlockArgument argument : corner.getArguments()) {
      if (isWeight(argument) || argument.use_empty())
        continue;
      std::string content;
      if (IntegerAttr limit = limitOf(argument))
        content = " below " + std::to_string(limit.getInt());
      else if (!isa<FloatType>(getElementTypeOrSelf(argument.getType())))
        content = kMask;
      inputs.push_back({argument, content, roleOf(argument).getName().str()});
    }
    llvm::sort(inputs);
    for (DrawnInput &input : inputs)
      input.isNamed =
          input.content != kMask && llvm::count_if(inputs, [&](const DrawnInput &other) {
                                      return other.key() == input.key();
                                    }) > 1;
  }

  /// Buffers that with constants alone become the argument of a sine or cosine are angles.
  void findConstants() {
    for (BlockArgument argument : corner.getArguments())
      if (roleOf(argument).getKind() == RoleKind::Buffer)
        constants.insert(argument);
    auto add = [&](bool onlyAngles) {
      corner.walk([&](Operation *op) {
        if (op == corner || isa<func::ReturnOp>(op))
          return;
        if (llvm::all_of(op->getOperands(), [&](Value value) { return isConstant(value); }))
          constants.insert_range(op->getResults());
        if (onlyAngles && isa<math::CosOp, math::SinOp>(op) && isConstant(op))
          markAngles(op->getOperand(0));
      });
    };
    add(/*onlyAngles=*/true);
    constants.clear();
    constants.insert_range(angles);
    add(/*onlyAngles=*/false);
  }

  void markAngles(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      angles.insert(argument);
      return;
    }
    for (Value operand : value.getDefiningOp()->getOperands())
      markAngles(operand);
  }

  func::FuncOp corner;
  const BufferData &data;
  DenseSet<Value> constants, angles;
  std::vector<DrawnInput> inputs;
};

using FileTypes = llvm::StringMap<RankedTensorType>;

RankedTensorType typeInFile(BlockArgument weight, const Reading &reading, const FileTypes &files) {
  auto found = files.find(reading.roleOf(weight).getName());
  return found == files.end() ? cast<RankedTensorType>(weight.getType()) : found->second;
}

/// Computes the corner once, with weights moved by a nudge.
class Run {
public:
  Run(func::FuncOp corner, const Reading &reading, const FileTypes &files, double nudge)
      : corner(corner), reading(reading),
        evaluator(Numerics::Double, /*mesh=*/nullptr, decompositions) {
    for (BlockArgument argument : corner.getArguments())
      if (reading.isDrawn(argument))
        weights[argument] = std::make_unique<const DrawnWeight>(
            reading.roleOf(argument).getName(), cast<RankedTensorType>(argument.getType()),
            typeInFile(argument, reading, files).getShape(), nudge);
  }

  double steps(bool onlyConstants) {
    double sum = 0;
    corner.walk([&](Operation *op) {
      if (op != corner && !isa<func::ReturnOp>(op) && (!onlyConstants || reading.isConstant(op)))
        sum += stepsOf(op);
    });
    return sum;
  }

  /// Nothing where an op can't be interpreted, or a buffer has no data.
  std::optional<std::vector<double>> run(bool onlyConstants) {
    for (BlockArgument argument : corner.getArguments())
      if (!weights.contains(argument) && (!onlyConstants || reading.isConstant(argument)) &&
          !argument.use_empty() && failed(take(argument)))
        return std::nullopt;
    for (Operation &op : corner.front().without_terminator()) {
      if ((!onlyConstants || reading.isConstant(&op)) && failed(evaluate(&op)))
        return std::nullopt;
      dropSpent(&op);
    }
    std::vector<double> results;
    if (!onlyConstants)
      for (Value result : corner.front().getTerminator()->getOperands())
        append(*valueOf(result), results);
    return results;
  }

  const std::vector<double> &angles() const { return foundAngles; }

private:
  const DrawnWeight *weightOf(Value value) const {
    auto found = weights.find(value);
    return found == weights.end() ? nullptr : found->second.get();
  }

  /// The weight that a product is made with as it is drawn, and whether it is the first operand.
  std::optional<bool> fastOperand(graph::ContractOp op) const {
    for (bool isLhs : {true, false})
      if (const DrawnWeight *weight = weightOf(isLhs ? op.getLhs() : op.getRhs());
          weight && weight->stepsOf(op, isLhs) && !weightOf(isLhs ? op.getRhs() : op.getLhs()))
        return isLhs;
    return std::nullopt;
  }

  double stepsOf(Operation *op) const {
    double result = 0;
    for (Value value : op->getResults())
      result += elementsOf(value);
    if (auto contract = dyn_cast<graph::ContractOp>(op))
      if (auto isLhs = fastOperand(contract))
        return *weightOf(op->getOperand(*isLhs ? 0 : 1))->stepsOf(contract, *isLhs);
    const bool isPart = isa<graph::SliceOp, graph::GatherOp>(op);
    for (Value value : op->getOperands()) {
      constexpr double kStepsToDraw = 4;
      if (!weightOf(value))
        result += elementsOf(value);
      else
        result += kStepsToDraw * elementsOf(isPart ? op->getResult(0) : value);
    }
    constexpr double kStepsOfConv = 4; // each product looks for its place
    if (auto conv = dyn_cast<graph::ConvOp>(op))
      return result + kStepsOfConv * elementsOf(conv.getResult()) * elementsOf(conv.getWeight()) /
                          double(shapeOf(conv.getWeight())[0]);
    return result + productsOf(op);
  }

  LogicalResult take(BlockArgument argument) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (!reading.isWeight(argument))
      return values[argument] = std::make_shared<const Tensor>(sample(argument)), success();
    DenseElementsAttr attr = reading.dataOf(argument);
    if (!attr || attr.getElementType() != type.getElementType() ||
        attr.getNumElements() != type.getNumElements())
      return failure();
    auto tensor = toTensor(attr.reshape(type));
    if (failed(tensor))
      return failure();
    values[argument] = std::make_shared<const Tensor>(std::move(*tensor));
    return success();
  }

  /// The same numbers at the same places of however many samples and positions. Integers without a
  /// limit are masks, which hide nothing.
  Tensor sample(BlockArgument argument) {
    Tensor tensor(cast<RankedTensorType>(argument.getType()));
    const IntegerAttr limit = reading.limitOf(argument);
    const auto inputNumber = static_cast<uint64_t>(reading.numberOf(argument));
    const Strides strides = stridesOf(tensor.shape());
    for (int64_t i = 0; i < tensor.size(); ++i) {
      uint64_t place = 1 + inputNumber * 0x9e37;
      for (int64_t dim = 0, rest = i; dim < tensor.rank(); rest %= strides[dim++])
        place = place * 0x100000001b3 + static_cast<uint64_t>(rest / strides[dim]);
      const double number = drawn(0, place);
      if (tensor.isFloat())
        tensor.floats[i] = number;
      else
        tensor.ints[i] =
            limit ? static_cast<int64_t>((number + 1) / 2 * double(limit.getInt())) : 1;
    }
    return tensor;
  }

  LogicalResult evaluate(Operation *op) {
    if (auto slice = dyn_cast<graph::SliceOp>(op))
      if (const DrawnWeight *weight = weightOf(slice.getInput()))
        return keep(op, weight->part(cast<RankedTensorType>(slice.getResult().getType()),
                                     slice.getOffsets(), slice.getStrides()));
    if (auto gather = dyn_cast<graph::GatherOp>(op))
      if (const DrawnWeight *weight = weightOf(gather.getTable());
          weight && !weightOf(gather.getIndices()))
        return keep(op, weight->rowsAt(gather, *valueOf(gather.getIndices())));
    if (auto contract = dyn_cast<graph::ContractOp>(op))
      if (auto isLhs = fastOperand(contract))
        return keep(op, weightOf(op->getOperand(*isLhs ? 0 : 1))
                            ->product(contract, *isLhs, *valueOf(op->getOperand(*isLhs ? 1 : 0))));
    SmallVector<RankTensors> operands;
    for (Value operand : op->getOperands())
      operands.push_back({valueOf(operand)});
    noteAngles(op);
    auto results = evaluator.evaluate(op, operands);
    if (failed(results))
      return failure();
    for (auto [result, tensors] : llvm::zip_equal(op->getResults(), *results))
      values[result] = tensors.front();
    return success();
  }

  /// What nothing reads after `op`. New tensors take its memory, which else is new for each layer.
  void dropSpent(Operation *op) {
    for (Value operand : op->getOperands())
      if (llvm::none_of(operand.getUsers(),
                        [&](Operation *user) { return op->isBeforeInBlock(user); }))
        values.erase(operand);
  }

  LogicalResult keep(Operation *op, Tensor tensor) {
    values[op->getResult(0)] = std::make_shared<const Tensor>(std::move(tensor));
    return success();
  }

  TensorRef valueOf(Value value) {
    if (const DrawnWeight *weight = weightOf(value))
      return std::make_shared<const Tensor>(weight->whole());
    return values.at(value);
  }

  /// Of those that are not 0.
  void noteAngles(Operation *op) {
    if (!isa<math::CosOp>(op) || !reading.isConstant(op))
      return;
    double least = 0;
    for (double angle : valueOf(op->getOperand(0))->floats)
      if (angle != 0 && (least == 0 || std::fabs(angle) < least))
        least = std::fabs(angle);
    if (least > 0)
      foundAngles.push_back(least);
  }

  static void append(const Tensor &tensor, std::vector<double> &values) {
    llvm::append_range(values, tensor.floats);
    llvm::append_range(values, llvm::map_range(tensor.ints, [](int64_t i) { return double(i); }));
  }

  func::FuncOp corner;
  const Reading &reading;
  Decompositions decompositions;
  Evaluator evaluator;
  llvm::DenseMap<Value, std::unique_ptr<const DrawnWeight>> weights;
  llvm::DenseMap<Value, TensorRef> values;
  std::vector<double> foundAngles;
};

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

/// Commas and colons part the text.
std::string wordOf(std::string name) {
  std::replace_if(name.begin(), name.end(), [](char c) { return !llvm::isAlnum(c); }, '_');
  return name;
}

std::string printed(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string shapesOf(func::FuncOp corner, func::FuncOp forward, const Reading &reading,
                     const FileTypes &files) {
  std::set<std::string> types; // files of other types round their constants otherwise
  for (BlockArgument argument : corner.getArguments())
    if (reading.isDrawn(argument))
      types.insert(printed(typeInFile(argument, reading, files).getElementType()));
  std::string text = "weights " + llvm::join(types, " and ");
  for (const DrawnInput &input : reading.drawnInputs()) {
    text += ", input " + shapeText(shapeOf(input.argument)) + " of " +
            shapeText(shapeOf(forward.getArgument(input.argument.getArgNumber()))) + input.content;
    if (input.isNamed)
      text += " named " + wordOf(input.name);
  }
  for (Value result : corner.front().getTerminator()->getOperands())
    text += ", output " + shapeText(shapeOf(result));
  return text;
}

std::string inputSizesOf(func::FuncOp forward, const Reading &reading) {
  std::string text;
  for (BlockArgument argument : forward.getArguments()) {
    auto shape = shapeOf(argument);
    if (!reading.isWeight(argument) && !shape.empty())
      text += (text.empty() ? "" : ", ") + shapeText(shape.drop_front());
  }
  return text;
}

bool areStable(ArrayRef<double> values, ArrayRef<double> moved) {
  double largest = 0, difference = 0;
  for (auto [value, other] : llvm::zip_equal(values, moved)) {
    if (!std::isfinite(value) || !std::isfinite(other))
      return false;
    largest = std::max(largest, std::fabs(value));
    difference = std::max(difference, std::fabs(value - other));
  }
  return difference <= kMostMoved * largest && largest > 0;
}

} // namespace

DrawnResults drawnResults(func::FuncOp forward, const BufferData &data) {
  ScopedDiagnosticHandler silent(forward.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module = cornerOf(forward, kMostOfDimension);
  if (!module)
    return {};
  func::FuncOp corner = *module->getOps<func::FuncOp>().begin();
  FileTypes files;
  for (auto parameter : forward->getParentOfType<ModuleOp>().getOps<graph::ParameterOp>())
    files[parameter.getSymName()] = cast<RankedTensorType>(parameter.getFileType());
  const Reading reading(corner, data);
  Run first(corner, reading, files, 0), second(corner, reading, files, kNudge);
  DrawnResults results;
  results.shapes = shapesOf(corner, forward, reading, files);
  if (Run angles(corner, reading, files, 0);
      angles.steps(/*onlyConstants=*/true) <= kMostSteps && angles.run(/*onlyConstants=*/true))
    results.angles = angles.angles();
  results.inputSizes = inputSizesOf(forward, reading);
  // Whether statistics are a batch's is said anew for each run.
  const bool hasBatchNorms = !corner.getOps<graph::BatchNormOp>().empty();
  if (hasBatchNorms || first.steps(/*onlyConstants=*/false) > kMostSteps)
    return results;
  auto values = first.run(/*onlyConstants=*/false), moved = second.run(/*onlyConstants=*/false);
  if (values && moved && areStable(*values, *moved))
    results.values = std::move(*values);
  return results;
}

} // namespace dtc::interpreter
