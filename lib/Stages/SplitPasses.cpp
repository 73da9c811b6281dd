#include "dtc/Stages/Stages.h"

#include "PassNeeds.h"
#include "SharedParts.h"
#include "StageFunction.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {
namespace {

/// With what only such ops read.
void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// Takes the function of a stage apart.
class PassSplitter {
public:
  PassSplitter(func::FuncOp joint, bool splitBackward)
      : joint(joint), splitBackward(splitBackward), chunk(getRuns(joint).getChunk()),
        passes(joint) {}

  LogicalResult run() {
    if (failed(takeApartShared(joint)))
      return failure();
    // Of a layer that is computed again, the next stage has read the output: nothing is kept for
    // it.
    eraseUnread(joint.front());
    if (failed(passes.find(splitBackward)))
      return failure();
    needs = findNeeds(joint, passes);
    build(kForwardPass, "forward", Passes::Forward);
    if (splitBackward) {
      build(kInputGradPass, "input_grad", Passes::InputGrad);
      build(kWeightGradPass, "weight_grad", Passes::WeightGrad);
    } else {
      build(kInputGradPass, "backward", Passes::Backward);
    }
    joint.erase();
    return success();
  }

private:
  DictionaryAttr keptAttributes(Value value) {
    Builder builder(joint.getContext());
    auto role = RoleAttr::get(joint.getContext(), RoleKind::Kept, needs.keptNames.at(value),
                              std::nullopt, std::nullopt);
    return builder.getDictionaryAttr(builder.getNamedAttr(GraphDialect::kRole, role));
  }

  static DictionaryAttr withoutRuns(DictionaryAttr attributes) {
    NamedAttrList list(attributes);
    list.erase(GraphDialect::kRuns);
    return list.getDictionary(attributes.getContext());
  }

  void build(StagePass pass, StringRef name, Passes runs) {
    Signature signature;
    SmallVector<Value> given;
    for (BlockArgument argument : joint.getArguments())
      if (needs.arguments[pass].contains(argument)) {
        given.push_back(argument);
        signature.add(argument.getType(),
                      withoutRuns(argumentAttributes(joint, argument.getArgNumber())));
      }
    for (Value value : needs.taken[pass]) {
      given.push_back(value);
      signature.add(value.getType(), keptAttributes(value));
    }
    std::string suffix = chunk == 0 ? "" : "_" + std::to_string(chunk);
    func::FuncOp function = createFunction(joint->getParentOfType<ModuleOp>(),
                                           (name + suffix).str(), joint.getLoc(), signature);
    function->moveBefore(joint);
    function->setAttr(dist::DistDialect::kLocal, UnitAttr::get(joint.getContext()));
    setRuns(function, Cadence::Microbatch, runs, chunk);
    fill(pass, function, given);
  }

  void fill(StagePass pass, func::FuncOp function, ArrayRef<Value> given) {
    IRMapping mapping;
    mapping.map(given, function.getArguments());
    OpBuilder builder = OpBuilder::atBlockEnd(&function.front());
    for (Operation &op : joint.front().without_terminator())
      if (passes.passOf(&op) == pass || needs.remade[pass].contains(&op))
        builder.clone(op, mapping);
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
    for (unsigned i : passes.resultsOf(pass)) {
      values.push_back(mapping.lookup(joint.front().getTerminator()->getOperand(i)));
      attributes.push_back(withoutRuns(resultAttributes(joint, i)));
    }
    for (Value value : needs.kept[pass]) {
      values.push_back(mapping.lookup(value));
      attributes.push_back(keptAttributes(value));
    }
    finishFunction(function, values, attributes);
    eraseUnread(function.front());
  }

  func::FuncOp joint;
  bool splitBackward;
  int64_t chunk;
  PassesOfOps passes;
  PassNeeds needs;
};

} // namespace

LogicalResult splitPasses(ModuleOp rank, bool splitBackward) {
  for (auto function : llvm::to_vector(rank.getOps<func::FuncOp>())) {
    RunsAttr runs = getRuns(function);
    bool isStage = runs && (runs.getPasses() & Passes::Forward) != Passes::None &&
                   (runs.getPasses() & Passes::Backward) != Passes::None;
    if (isStage && failed(PassSplitter(function, splitBackward).run()))
      return failure();
  }
  return success();
}

} // namespace dtc::stages
