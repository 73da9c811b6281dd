// Faults in kernels and library calls: other kernels, operands, results and parts than a function
// asks for.
#include "StepMutants.h"

#include "dtc/Dialect/Exec/Exec.h"

#include "llvm/ADT/TypeSwitch.h"

#include <utility>

using namespace mlir;

namespace dtc::twin::test {
namespace {

class KernelMutantMaker {
public:
  explicit KernelMutantMaker(ModuleOp module) : module(module) {}

  std::vector<StepMutant> run() {
    for (Operation *op : numberedOps(module)) {
      if (op->getParentOfType<func::FuncOp>())
        TypeSwitch<Operation *>(op)
            .Case([&](exec::LaunchOp launch) { visit(launch); })
            .Case([&](exec::MatmulOp product) { visit(product); })
            .Case([&](exec::AttentionOp attention) { visit(attention); });
      ++current;
    }
    return std::move(made);
  }

private:
  void add(const char *kind, Operation *op, std::function<void(Operation *)> plant,
           bool isFurther = false) {
    made.push_back({kind, placeOf(op, current), current, std::move(plant), isFurther});
  }

  /// Other kernels of the same tensors, as if they were one.
  static SmallVector<StringRef> otherKernels(exec::LaunchOp launch) {
    auto own = SymbolTable::lookupNearestSymbolFrom<exec::KernelOp>(launch, launch.getKernelAttr());
    auto isLike = [&](exec::KernelOp kernel) {
      return kernel != own && kernel.getFlat() == own.getFlat() &&
             kernel.getPieces() == own.getPieces() &&
             llvm::equal(kernel.getBody().getArgumentTypes(), own.getBody().getArgumentTypes()) &&
             kernel.getYield().getOperandTypes() == own.getYield().getOperandTypes();
    };
    SmallVector<StringRef> names;
    for (auto kernel : own->getParentOfType<ModuleOp>().getOps<exec::KernelOp>())
      if (isLike(kernel))
        names.push_back(kernel.getSymName());
    return names;
  }

  /// Any two that may be taken for each other.
  void visitOperands(const char *kind, Operation *op) {
    bool isFurther = false;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      for (unsigned j = i + 1; j < op->getNumOperands(); ++j) {
        if (op->getOperand(i) == op->getOperand(j) ||
            op->getOperand(i).getType() != op->getOperand(j).getType())
          continue;
        auto exchange = [i, j](Operation *at) {
          Value first = at->getOperand(i);
          at->setOperand(i, at->getOperand(j));
          at->setOperand(j, first);
        };
        add(kind, op, exchange, std::exchange(isFurther, true));
      }
  }

  static SmallVector<OpOperand *> usesOf(Value value) {
    return llvm::map_to_vector(value.getUses(), [](OpOperand &use) { return &use; });
  }

  void visitResults(const char *kind, Operation *op) {
    bool isFurther = false;
    for (OpResult first : op->getResults())
      for (OpResult second : op->getResults().drop_front(first.getResultNumber() + 1)) {
        if (first.getType() != second.getType() || first.use_empty() || second.use_empty())
          continue;
        auto exchange = [i = first.getResultNumber(), j = second.getResultNumber()](auto *at) {
          const SmallVector<OpOperand *> ofFirst = usesOf(at->getResult(i));
          const SmallVector<OpOperand *> ofSecond = usesOf(at->getResult(j));
          for (OpOperand *use : ofFirst)
            use->set(at->getResult(j));
          for (OpOperand *use : ofSecond)
            use->set(at->getResult(i));
        };
        add(kind, op, exchange, std::exchange(isFurther, true));
      }
  }

  void visit(exec::LaunchOp launch) {
    visitOperands("exchanged operands of a kernel", launch);
    visitResults("exchanged results of a kernel", launch);
    bool isFurther = false;
    for (StringRef other : otherKernels(launch))
      add(
          "kernel of another place", launch,
          [name = other.str()](Operation *at) { cast<exec::LaunchOp>(at).setKernel(name); },
          std::exchange(isFurther, true));
  }

  void visit(exec::MatmulOp product) {
    visitOperands("exchanged operands of a product", product);
    for (unsigned i = 0; i < 2; ++i) {
      if (product.getOffsets()[i] != 0)
        add("wrong part of a product's operand", product, [i](Operation *at) {
          auto product = cast<exec::MatmulOp>(at);
          SmallVector<int64_t> offsets(product.getOffsets());
          offsets[i] = 0;
          product.setOffsets(offsets);
        });
      ArrayRef<int64_t> strides = i == 0 ? product.getLhsStrides() : product.getRhsStrides();
      const int64_t size = product.getMnk()[i], other = product.getMnk()[2];
      if (size == other && size > 1 && strides.back() != strides.drop_back().back())
        add("transposed operand", product, [i](Operation *at) {
          auto product = cast<exec::MatmulOp>(at);
          SmallVector<int64_t> strides(i == 0 ? product.getLhsStrides() : product.getRhsStrides());
          std::swap(strides.back(), strides[strides.size() - 2]);
          i == 0 ? product.setLhsStrides(strides) : product.setRhsStrides(strides);
        });
    }
  }

  void visit(exec::AttentionOp attention) {
    if (attention.getCausal())
      add("lost mask", attention,
          [](Operation *at) { cast<exec::AttentionOp>(at).setCausal(false); });
    exchangePlaces(attention, 0, attention.getInputs().size());
    exchangePlaces(attention, attention.getInputs().size(), attention.getPlaces().size());
  }

  /// Of two tensors that lie in one.
  void exchangePlaces(exec::AttentionOp attention, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      for (size_t j = i + 1; j < end; ++j)
        if (attention.valueOf(i) == attention.valueOf(j) &&
            attention.placeOf(i).getShape() == attention.placeOf(j).getShape() &&
            attention.placeOf(i) != attention.placeOf(j))
          add("exchanged parts of attention", attention, [i, j](Operation *at) {
            auto attention = cast<exec::AttentionOp>(at);
            SmallVector<Attribute> places(attention.getPlaces().getValue());
            std::swap(places[i], places[j]);
            attention.setPlacesAttr(ArrayAttr::get(at->getContext(), places));
          });
  }

  ModuleOp module;
  unsigned current = 0;
  std::vector<StepMutant> made;
};

} // namespace

std::vector<StepMutant> makeKernelMutants(ModuleOp formed) {
  return KernelMutantMaker(formed).run();
}

} // namespace dtc::twin::test
