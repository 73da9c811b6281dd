#include "dtc/Lower/StepTerms.h"

#include "Homes.h"

#include "dtc/Dialect/Dist/StageOps.h"

using namespace mlir;

namespace dtc::lower {

using graph::RoleAttr;
using graph::RoleKind;

/// Whether result i is made of operand i alone.
static bool isOneByOne(Operation *op) {
  return isa<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::StageSumOp>(op);
}

static bool keepsValue(Operation *op) {
  return isa<exec::CopyOp, exec::WaitOp, graph::BarrierOp>(op);
}

/// Whether a step leaves it to whoever comes after. Gradients may be terms of sums or sums.
static bool outlives(RoleKind kind) {
  return kind != RoleKind::Gradient && kind != RoleKind::Kept && kind != RoleKind::Inbox;
}

StepTerms::StepTerms(ModuleOp module) {
  SymbolTable symbols(module);
  for (auto schedule : module.getOps<exec::ScheduleOp>()) {
    const auto last = static_cast<int64_t>(schedule.getMicrobatches()) - 1;
    for (auto each : schedule.getOps<exec::CallOp>()) {
      auto function = symbols.lookup<func::FuncOp>(each.getCallee());
      const auto microbatch = static_cast<int64_t>(each.getMicrobatch());
      if (function && (microbatch < 2 || microbatch == last))
        call(function, graph::runsPerMicrobatch(function) ? microbatch : -1);
    }
  }
}

/// What nothing has given is known by its role.
StepTerms::Term StepTerms::argument(RoleAttr role, int64_t microbatch) {
  const Key key{homeRole(role), scopeOf(role.getKind()) == Scope::Step ? -1 : microbatch};
  auto found = held.find(key);
  return found != held.end() ? found->second
                             : Term(llvm::hash_combine(key.first.getAsOpaquePointer(), key.second));
}

StepTerms::Term StepTerms::termOf(OpResult result, ArrayRef<Term> operands, int64_t microbatch) {
  Operation *op = result.getOwner();
  const unsigned number = result.getResultNumber();
  if (keepsValue(op))
    return operands[0];
  const auto term = llvm::hash_combine(op->getName().getAsOpaquePointer(), op->hashProperties(),
                                       result.getType().getAsOpaquePointer());
  if (operands.empty()) // what it makes may be the call's
    return Term(llvm::hash_combine(term, number, microbatch));
  if (isOneByOne(op))
    return Term(llvm::hash_combine(term, operands[number]));
  return Term(llvm::hash_combine(term, number, llvm::hash_combine_range(operands)));
}

void StepTerms::call(func::FuncOp function, int64_t microbatch) {
  DenseMap<Value, Term> terms;
  for (BlockArgument argument : function.getArguments())
    if (RoleAttr role = graph::getArgRole(function, argument.getArgNumber()))
      terms[argument] = this->argument(role, microbatch);
  auto termsOf = [&](Operation &op) {
    return llvm::map_to_vector(op.getOperands(), [&](Value value) { return terms.lookup(value); });
  };
  Block &block = function.getBody().front();
  for (Operation &op : block.without_terminator()) {
    SmallVector<Term> operands = termsOf(op);
    for (OpResult result : op.getResults())
      terms[result] = termOf(result, operands, microbatch);
    if (isa<exec::SendOp>(op))
      sent.push_back(Term(
          llvm::hash_combine(op.hashProperties(), microbatch, llvm::hash_combine_range(operands))));
  }
  for (auto [i, term] : llvm::enumerate(termsOf(*block.getTerminator())))
    if (RoleAttr role = graph::getResultRole(function, i))
      held[{homeRole(role), scopeOf(role.getKind()) == Scope::Step ? -1 : microbatch}] = term;
}

std::string StepTerms::differenceFrom(const StepTerms &other) const {
  auto isGivenAlike = [&](const Key &key) {
    auto own = held.find(key), its = other.held.find(key);
    return own != held.end() && its != other.held.end() && own->second == its->second;
  };
  for (const auto *terms : {this, &other})
    for (const auto &[key, term] : terms->held) {
      auto role = cast<RoleAttr>(key.first);
      if (!outlives(role.getKind()) || isGivenAlike(key))
        continue;
      std::string text;
      llvm::raw_string_ostream(text) << role;
      return text;
    }
  return sent == other.sent ? "" : "a message";
}

} // namespace dtc::lower
