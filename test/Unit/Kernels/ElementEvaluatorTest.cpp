// The evaluator with a host that has no loops: one thread for each element, as on a GPU, whose
// numbers are arguments of a function.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Kernels/ElementEvaluator.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::kernels;

namespace {

/// Threads in blocks. Memory is stood for by ops: test.load(offset) of an argument.
class ThreadHost : public ElementHost {
public:
  ThreadHost(exec::KernelOp kernel, OpBuilder &builder, int64_t blocks, int64_t threads)
      : info(kernel.getBody().front()), builder(builder), evaluator(info, builder, *this) {
    Type i64 = builder.getI64Type();
    Location loc = kernel.getLoc();
    function = func::FuncOp::create(loc, "f", builder.getFunctionType({i64, i64}, {}));
    Block *entry = function->addEntryBlock();
    evaluator.pushScope(entry);
    block = evaluator.variableFor(entry->getArgument(0), {0, blocks});
    thread = evaluator.variableFor(entry->getArgument(1), {0, threads});
  }

  /// Emits the first result at an index.
  Value emit(const Index &index) { return evaluator.emitStored(info.results[0], index); }

  Value made(StringRef name, Type type, ValueRange operands, unsigned argument = 0) {
    evaluator.position();
    OperationState state(builder.getUnknownLoc(), name, operands, TypeRange(type));
    state.addAttribute("argument", builder.getI64IntegerAttr(argument));
    return builder.create(state)->getResult(0);
  }
  Narrowing narrowing() const override { return Narrowing::Bits; }
  Value load(unsigned argument, AffineExpr offset) override {
    Type element = getElementTypeOrSelf(info.body.getArgument(argument).getType());
    offsets.push_back(offset);
    return made("test.load", computeType(element), {evaluator.lower(offset)}, argument);
  }
  Value loadOneOf(ArrayRef<ElementPlace>, ArrayRef<Value>) override { return {}; }
  Value loadConstant(DenseElementsAttr elements, AffineExpr offset) override {
    return made("test.constant", computeType(elements.getElementType()),
                {evaluator.lower(offset)});
  }
  Value kept(Operation *op, const Index &) override { return keptValues.lookup(op); }
  void computed(Operation *op, const Index &, Value) override { computedOps.push_back(op); }
  Value reduce(graph::ReduceOp op, const Index &index) override {
    return evaluator.writtenOut(op, index);
  }
  Value approximate(Operation *, ValueRange) override { return {}; }
  void noteDivision(AffineExpr expr) override { divisions.push_back(expr); }
  void noteBoundary(AffineExpr, int64_t boundary) override { boundaries.push_back(boundary); }

  int count(StringRef name) {
    int count = 0;
    function->walk([&](Operation *op) { count += op->getName().getStringRef() == name; });
    return count;
  }

  BodyInfo info;
  OpBuilder &builder;
  ElementEvaluator evaluator;
  OwningOpRef<func::FuncOp> function;
  AffineExpr block, thread;
  DenseMap<Operation *, Value> keptValues;
  std::vector<Operation *> computedOps;
  std::vector<AffineExpr> offsets, divisions;
  std::vector<int64_t> boundaries;
};

class ElementEvaluatorTest : public test::ModuleTest<graph::GraphDialect, exec::ExecDialect,
                                                     arith::ArithDialect, func::FuncDialect,
                                                     math::MathDialect> {
protected:
  ElementEvaluatorTest() : builder(&context) { context.allowUnregisteredDialects(); }

  exec::KernelOp parse(const std::string &arguments, const std::string &ops) {
    module = parseSourceString<ModuleOp>("exec.kernel @k extent 1 scratch 0 {\n^bb0(" + arguments +
                                             "):\n" + ops + "}\n",
                                         &context);
    EXPECT_TRUE(module) << errors;
    return *module->getOps<exec::KernelOp>().begin();
  }

  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
};

/// The element of a bias is asked for at the column, that of the matrix at both. Reshapes leave no
/// division where the threads lie as the rows do.
TEST_F(ElementEvaluatorTest, ViewsBecomeOffsets) {
  auto kernel = parse("%x: tensor<8x64xf32>, %bias: tensor<64xf32>",
                      "  %0 = dtc.broadcast %bias [1] : tensor<64xf32> -> tensor<8x64xf32>\n"
                      "  %1 = arith.addf %x, %0 : tensor<8x64xf32>\n"
                      "  %2 = dtc.reshape %1 : tensor<8x64xf32> -> tensor<512xf32>\n"
                      "  exec.yield %2 : tensor<512xf32>\n");
  ThreadHost host(kernel, builder, 8, 64);
  AffineExpr element = host.evaluator.math.add(host.evaluator.math.multiply(host.block, 64),
                                               host.thread);
  host.emit({element});
  ASSERT_EQ(host.offsets.size(), 2u);
  EXPECT_EQ(host.offsets[0], element);
  EXPECT_EQ(host.offsets[1], host.thread);
  EXPECT_TRUE(host.divisions.empty());
  EXPECT_EQ(host.count("arith.addf"), 1);
}

/// Where they lie otherwise, the host learns of it.
TEST_F(ElementEvaluatorTest, DivisionsAreNoted) {
  auto kernel = parse("%x: tensor<8x64xf32>",
                      "  %0 = dtc.transpose %x [1, 0] : tensor<8x64xf32> -> tensor<64x8xf32>\n"
                      "  %1 = dtc.reshape %0 : tensor<64x8xf32> -> tensor<512xf32>\n"
                      "  exec.yield %1 : tensor<512xf32>\n");
  ThreadHost host(kernel, builder, 1, 512);
  host.emit({host.thread});
  EXPECT_FALSE(host.divisions.empty());
  EXPECT_EQ(host.count("arith.divui") + host.count("arith.remui"), 2);
}

/// A scalar is computed once in a scope, whoever asks for it.
TEST_F(ElementEvaluatorTest, ScalarsAreRemembered) {
  auto kernel = parse("%x: tensor<64xf32>", "  %0 = math.exp %x : tensor<64xf32>\n"
                                            "  %1 = arith.mulf %0, %0 : tensor<64xf32>\n"
                                            "  %2 = arith.addf %1, %0 : tensor<64xf32>\n"
                                            "  exec.yield %2 : tensor<64xf32>\n");
  ThreadHost host(kernel, builder, 1, 64);
  host.emit({host.thread});
  EXPECT_EQ(host.count("math.exp"), 1);
  EXPECT_EQ(host.count("test.load"), 1);
  EXPECT_EQ(host.computedOps.size(), 3u);
}

/// What the host has of an op is neither computed nor loaded.
TEST_F(ElementEvaluatorTest, HostsKeepValues) {
  auto kernel = parse("%x: tensor<64xf32>", "  %0 = math.exp %x : tensor<64xf32>\n"
                                            "  %1 = arith.addf %0, %0 : tensor<64xf32>\n"
                                            "  exec.yield %1 : tensor<64xf32>\n");
  ThreadHost host(kernel, builder, 1, 64);
  host.keptValues[host.info.ops[0]] = host.made("test.shared", builder.getF32Type(), {});
  host.emit({host.thread});
  EXPECT_EQ(host.count("math.exp"), 0);
  EXPECT_EQ(host.count("test.load"), 0);
  EXPECT_EQ(host.computedOps, std::vector<Operation *>{host.info.ops[1]});
}

/// A host that can't load from one of several places gets both, and a choice; it is told where
/// one piece ends.
TEST_F(ElementEvaluatorTest, PiecesAreChosen) {
  auto kernel = parse("%x: tensor<24xf32>, %y: tensor<40xf32>",
                      "  %0 = dtc.concat 0 (%x, %y) : tensor<24xf32>, tensor<40xf32> -> "
                      "tensor<64xf32>\n  exec.yield %0 : tensor<64xf32>\n");
  ThreadHost host(kernel, builder, 1, 64);
  host.emit({host.thread});
  EXPECT_EQ(host.boundaries, std::vector<int64_t>{24});
  EXPECT_EQ(host.count("test.load"), 2);
  EXPECT_EQ(host.count("arith.select"), 1);
}

TEST_F(ElementEvaluatorTest, SmallReductionsAreWrittenOut) {
  auto kernel = parse("%x: tensor<64x3xf32>",
                      "  %0 = dtc.reduce sum %x [1] : tensor<64x3xf32> -> tensor<64xf32>\n"
                      "  exec.yield %0 : tensor<64xf32>\n");
  ThreadHost host(kernel, builder, 1, 64);
  host.emit({host.thread});
  EXPECT_EQ(host.count("test.load"), 3);
  EXPECT_EQ(host.count("arith.addf"), 2);
}

TEST_F(ElementEvaluatorTest, NamesAnOpThatNoKernelHas) {
  auto kernel = parse("%x: tensor<4x4xf32>",
                      "  %0 = dtc.contract %x [0, 1], %x [1, 2] -> [0, 2] : tensor<4x4xf32>, "
                      "tensor<4x4xf32> -> tensor<4x4xf32>\n  exec.yield %0 : tensor<4x4xf32>\n");
  ThreadHost host(kernel, builder, 4, 4);
  host.emit({host.block, host.thread});
  EXPECT_TRUE(host.evaluator.hasFailed());
  EXPECT_NE(errors.find("cannot be part of a kernel"), std::string::npos) << errors;
}

} // namespace
