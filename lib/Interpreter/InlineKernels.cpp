#include "dtc/Interpreter/InlineKernels.h"

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dtc::interpreter {
namespace {

int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

class LaunchInliner {
public:
  LaunchInliner(exec::LaunchOp launch, exec::KernelOp kernel)
      : launch(launch), kernel(kernel), body(kernel.getBody().front()), builder(launch) {}

  LogicalResult run() {
    findExtent();
    if (body.getNumArguments() != launch.getInputs().size())
      return launch.emitOpError("has other operands than its kernel: ") << kernel.getSymName();
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), launch.getInputs())) {
      FailureOr<Value> value = reshaped(operand, cast<RankedTensorType>(typeOf(argument)));
      if (failed(value))
        return failure();
      mapping.map(argument, *value);
    }
    for (Operation &op : body.without_terminator())
      clone(op);
    for (auto [yielded, result] :
         llvm::zip_equal(kernel.getYield().getValues(), launch.getResults())) {
      FailureOr<Value> value =
          reshaped(mapping.lookup(yielded), cast<RankedTensorType>(result.getType()));
      if (failed(value))
        return failure();
      result.replaceAllUsesWith(*value);
    }
    launch.erase();
    return success();
  }

private:
  /// A kernel that does the same to each element of its tensors may have others here.
  void findExtent() {
    auto largest = [](auto values) {
      int64_t most = 0;
      for (Value value : values)
        most = std::max(most, elementsOf(value));
      return most;
    };
    const int64_t here = std::max(largest(launch.getInputs()), largest(launch.getResults()));
    const int64_t there =
        std::max(largest(body.getArguments()), largest(kernel.getYield().getValues()));
    if (kernel.getFlat() && kernel.getPieces() == 1 && here != there)
      extent = here;
  }

  Type typeOf(Value value) const {
    auto type = cast<RankedTensorType>(value.getType());
    return extent && type.getRank() > 0 ? RankedTensorType::get({*extent}, type.getElementType())
                                        : type;
  }

  FailureOr<Value> reshaped(Value value, RankedTensorType type) {
    if (value.getType() == type)
      return value;
    if (elementsOf(value) != type.getNumElements())
      return launch.emitOpError("has a tensor of another size than its kernel: ")
             << value.getType() << ", " << type;
    return graph::ReshapeOp::create(builder, launch.getLoc(), type, value).getResult();
  }

  void clone(Operation &op) {
    Operation *copy = builder.clone(op, mapping);
    for (auto [source, result] : llvm::zip_equal(op.getResults(), copy->getResults()))
      result.setType(typeOf(source));
    if (auto value = dyn_cast<arith::ConstantOp>(copy); value && extent)
      if (auto elements = dyn_cast<DenseElementsAttr>(value.getValue());
          elements && elements.isSplat())
        value.setValueAttr(elements.resizeSplat(cast<ShapedType>(value.getType())));
  }

  exec::LaunchOp launch;
  exec::KernelOp kernel;
  Block &body;
  OpBuilder builder;
  IRMapping mapping;
  std::optional<int64_t> extent;
};

} // namespace

FailureOr<OwningOpRef<ModuleOp>> inlineKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  SmallVector<exec::LaunchOp> launches;
  copy->walk([&](exec::LaunchOp launch) { launches.push_back(launch); });
  for (exec::LaunchOp launch : launches) {
    auto kernel =
        SymbolTable::lookupNearestSymbolFrom<exec::KernelOp>(launch, launch.getKernelAttr());
    if (!kernel)
      return launch.emitOpError("runs an unknown kernel: ") << launch.getKernel();
    if (failed(LaunchInliner(launch, kernel).run()))
      return failure();
  }
  return copy;
}

} // namespace dtc::interpreter
