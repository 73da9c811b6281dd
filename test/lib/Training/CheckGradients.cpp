// --dtc-check-gradients: gradients against finite differences.
//
// For every function with the attribute `check_gradients`, the results are projected on fixed
// random tensors to one number. Its gradient with respect to every float argument, as the ops build
// it, is compared with central differences. The reference interpreter evaluates both in double.
// Integer arguments are drawn below the argument's attribute `test.bound`.
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Interpreter/Interpreter.h"
#include "dtc/Training/Backward.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;
using interpreter::Numerics;
using interpreter::Tensor;
using interpreter::Tensors;

namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;

bool isFloat(Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }

/// The number whose gradient is checked: sum of result * projection.
Value buildProjection(TensorBuilder &b, ValueRange results, Block &body,
                      SmallVectorImpl<RankedTensorType> &projections) {
  SmallVector<Value> terms;
  for (Value result : results) {
    auto type = cast<RankedTensorType>(result.getType());
    if (!isFloat(type))
      continue;
    Value weights = body.addArgument(type, b.loc);
    projections.push_back(type);
    Value term = b.mul(result, weights);
    term = b.sum(term, otherDims(type.getRank(), {}));
    terms.push_back(b.convert(term, b.builder.getF64Type()));
  }
  return SumOp::create(b.builder, b.loc, terms.front().getType(), terms);
}

void setReturn(func::FuncOp func, ArrayRef<Value> values) {
  Block &body = func.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  func::ReturnOp::create(builder, func.getLoc(), values);
  func.setAllArgAttrs(ArrayRef<DictionaryAttr>());
  func.setAllResultAttrs(ArrayRef<DictionaryAttr>());
  func.setType(FunctionType::get(func.getContext(), body.getArgumentTypes(),
                                 llvm::to_vector(ValueRange(values).getTypes())));
}

class GradientCheck {
public:
  explicit GradientCheck(func::FuncOp func) : func(func) {}
  ~GradientCheck() {
    for (func::FuncOp built : {forward, joint})
      if (built)
        built.erase();
  }

  LogicalResult run() {
    if (failed(build()))
      return failure();
    FailureOr<Tensors> gradients = interpreter::evaluate(joint, inputs, Numerics::Double);
    if (failed(gradients))
      return failure();
    int64_t checked = 0;
    for (auto [index, gradient] : llvm::zip_equal(wanted, *gradients)) {
      if (failed(compare(index, gradient)))
        return failure();
      checked += gradient.size();
    }
    func.emitRemark() << "gradient ok: " << checked << " elements";
    return success();
  }

private:
  LogicalResult build() {
    SmallVector<RankedTensorType> projections;
    forward = func.clone();
    forward.setName((func.getName() + ".projected").str());
    OpBuilder(func).insert(forward);
    Block &body = forward.getBody().front();
    drawInputs();
    SmallVector<Value> results(body.getTerminator()->getOperands());
    body.getTerminator()->erase();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    TensorBuilder b(builder, func.getLoc());
    Value projection = buildProjection(b, results, body, projections);
    for (auto [i, type] : llvm::enumerate(projections))
      inputs.push_back(interpreter::randomTensor(type, 1000 + i, 0));
    setReturn(forward, {projection});

    joint = forward.clone();
    joint.setName((func.getName() + ".gradients").str());
    OpBuilder(func).insert(joint);
    return differentiate();
  }

  LogicalResult differentiate() {
    Block &body = joint.getBody().front();
    Value start = body.getTerminator()->getOperand(0);
    body.getTerminator()->erase();
    SmallVector<Value> arguments;
    for (unsigned index : wanted)
      arguments.push_back(body.getArgument(index));
    training::numberForwardOps(body);
    training::Backward backward(body, arguments);
    if (failed(backward.run(start, [&](OpBuilder &builder) {
          return TensorBuilder(builder, func.getLoc()).constantLike(start, 1.0);
        })))
      return failure();
    SmallVector<Value> gradients;
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    for (Value argument : arguments) {
      Value gradient = backward.gradient(argument);
      if (!gradient) // nothing depends on it
        gradient = TensorBuilder(builder, func.getLoc()).constantLike(argument, 0.0);
      gradients.push_back(gradient);
    }
    setReturn(joint, gradients);
    return success();
  }

  void drawInputs() {
    for (BlockArgument argument : func.getArguments()) {
      unsigned index = argument.getArgNumber();
      auto bound = func.getArgAttrOfType<IntegerAttr>(index, "test.bound");
      inputs.push_back(interpreter::randomTensor(cast<RankedTensorType>(argument.getType()),
                                                 index + 1, bound ? bound.getInt() : 2));
      if (isFloat(argument.getType()))
        wanted.push_back(index);
    }
  }

  FailureOr<double> projected() {
    FailureOr<Tensors> value = interpreter::evaluate(forward, inputs, Numerics::Double);
    if (failed(value))
      return failure();
    return value->front().floats.front();
  }

  LogicalResult compare(unsigned index, const Tensor &gradient) {
    for (int64_t element = 0; element < gradient.size(); ++element) {
      double &input = inputs[index].floats[element];
      double original = input;
      input = original + kStep;
      FailureOr<double> above = projected();
      input = original - kStep;
      FailureOr<double> below = projected();
      input = original;
      if (failed(above) || failed(below))
        return failure();
      double expected = (*above - *below) / (2 * kStep), actual = gradient.floats[element];
      // Written so that NaN fails.
      if (!(std::abs(actual - expected) <= kTolerance * std::max(1.0, std::abs(expected))))
        return func.emitError() << "gradient of argument " << index << " at element " << element
                                << " is " << actual << ", finite differences give " << expected;
    }
    return success();
  }

  func::FuncOp func;
  func::FuncOp forward; ///< (arguments, projections) -> number
  func::FuncOp joint;   ///< (arguments, projections) -> gradients of the float arguments
  Tensors inputs;
  SmallVector<unsigned> wanted; ///< the float arguments
};

struct CheckGradientsPass : PassWrapper<CheckGradientsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckGradientsPass)
  StringRef getArgument() const override { return "dtc-check-gradients"; }
  StringRef getDescription() const override {
    return "compares the gradients of marked functions with finite differences";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<graph::GraphDialect>();
  }
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr("check_gradients"))
        functions.push_back(func);
    if (functions.empty()) {
      getOperation().emitError("no function is marked with check_gradients");
      return signalPassFailure();
    }
    bool allRight = true;
    for (func::FuncOp func : functions)
      allRight &= succeeded(GradientCheck(func).run());
    if (!allRight)
      signalPassFailure();
  }
};

} // namespace

namespace dtc::test {

void registerTrainingTestPasses() { PassRegistration<CheckGradientsPass>(); }

} // namespace dtc::test
