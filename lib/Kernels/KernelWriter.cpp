#include "dtc/Kernels/KernelWriter.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::kernels {

KernelWriter::KernelWriter(const BodyInfo &info, OpBuilder &builder)
    : info(info), builder(builder), loc(info.body.getParentOp()->getLoc()),
      evaluator(info, builder, *this), math(evaluator.math) {}

KernelWriter::Values KernelWriter::loop(Value low, Value high, int64_t step, Range range,
                                        ValueRange initial,
                                        llvm::function_ref<Values(AffineExpr, ValueRange)> body) {
  Value stride = evaluator.constantInt(step);
  evaluator.position();
  auto loop = scf::ForOp::create(builder, loc, low, high, stride, initial);
  if (!loop.getBody()->empty() && initial.empty())
    loop.getBody()->getTerminator()->erase();
  Operation *before = evaluator.continueBefore(loop);
  evaluator.pushScope(loop.getBody());
  Values results =
      body(evaluator.variableFor(loop.getInductionVar(), range), loop.getRegionIterArgs());
  evaluator.position();
  scf::YieldOp::create(builder, loc, results);
  evaluator.popScope();
  evaluator.continueBefore(before);
  return Values(loop.getResults());
}

Value KernelWriter::address(Value base, AffineExpr offset, Type element) {
  Value index = evaluator.lower(offset);
  evaluator.position();
  return LLVM::GEPOp::create(builder, loc, base.getType(), element, base,
                             ArrayRef<LLVM::GEPArg>{index}, LLVM::GEPNoWrapFlags::inbounds);
}

void KernelWriter::noteRead(unsigned argument, AffineExpr offset, int64_t rows) {
  Accesses::Reads &reads = accesses.reads[argument][phase];
  reads.onlyWrittenElement &= writtenElement && offset == writtenElement;
  bool inRow = false;
  if (rowVariable) {
    const int64_t columns = elementsOf(info.body.getArgument(argument)) / rows;
    Range range = math.range(math.add(offset, math.multiply(rowVariable, -columns)));
    inRow = columns > 0 && range.low >= 0 && range.high <= columns;
  }
  reads.onlyThisRow &= inRow;
}

} // namespace dtc::kernels
