#include "UpdateBatches.h"

#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Kernels/KernelBody.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace dtc::kernels {

static bool isScalar(Value value) { return elementsOf(value) == 1; }

BatchOperands::BatchOperands(ArrayRef<UpdatePiece> pieces) : pieces(pieces) {
  SmallVector<Value> scalars;
  for (Value input : pieces.front().update->inputs) {
    place.push_back(isScalar(input) ? -1 - int64_t(scalars.size()) : int64_t(own++));
    if (isScalar(input))
      scalars.push_back(input);
  }
  for (const UpdatePiece &piece : pieces)
    llvm::copy_if(piece.update->inputs, std::back_inserter(values),
                  [](Value input) { return !isScalar(input); });
  values.append(scalars);
}

unsigned BatchOperands::numberOf(size_t piece, size_t input) const {
  return place[input] >= 0 ? piece * own + place[input] : pieces.size() * own + (-1 - place[input]);
}

SmallVector<int64_t> BatchOperands::replaces() const {
  SmallVector<int64_t> all;
  for (auto [number, piece] : llvm::enumerate(pieces))
    for (int64_t input : piece.replaces)
      all.push_back(input < 0 ? -1 : int64_t(numberOf(number, input)));
  return all;
}

/// Whether it is brought for its update alone, as what lives on the host is.
static bool isBrought(func::FuncOp func, Value value) {
  if (Operation *op = value.getDefiningOp(); op && exec::isPart(op))
    return true;
  auto argument = dyn_cast<BlockArgument>(graph::withoutReshapes(value));
  return argument && func.getArgAttr(argument.getArgNumber(), dist::DistDialect::kOnHost);
}

/// Nothing reads what an update makes before `op`.
static bool isReadBefore(const Update &update, Operation *op) {
  return llvm::any_of(update.outputs, [&](Value output) {
    return llvm::any_of(output.getUsers(), [&](Operation *user) {
      return !llvm::is_contained(update.ops, user) && user->isBeforeInBlock(op);
    });
  });
}

namespace {

/// What pieces of one kernel have in common.
using Class = std::tuple<StringRef, std::vector<uintptr_t>, bool>;

Class classOf(const UpdatePiece &piece) {
  std::vector<uintptr_t> scalars(piece.replaces.begin(), piece.replaces.end());
  for (Value input : piece.update->inputs)
    if (isScalar(input))
      scalars.push_back(reinterpret_cast<uintptr_t>(input.getAsOpaquePointer()));
  return {piece.text, scalars, elementsOf(piece.update->outputs.front()) % kWholeAccess == 0};
}

} // namespace

std::vector<SmallVector<size_t>> batchUpdates(func::FuncOp func, ArrayRef<UpdatePiece> pieces,
                                              const target::KernelLimits &limits) {
  std::vector<SmallVector<size_t>> batches;
  std::map<Class, size_t> open; // only looked up, so that addresses decide nothing
  for (auto [i, piece] : llvm::enumerate(pieces)) {
    const Update &update = *piece.update;
    bool mayJoin = !piece.text.empty() && llvm::none_of(update.inputs, [&](Value input) {
      return isBrought(func, input);
    });
    if (!mayJoin) {
      batches.push_back({i});
      continue;
    }
    auto [place, fresh] = open.try_emplace(classOf(piece), batches.size());
    int64_t operands = update.inputs.size() + update.outputs.size();
    bool fits =
        !fresh && int64_t(batches[place->second].size()) < limits.pieces &&
        int64_t(batches[place->second].size() + 1) * operands <= limits.operands &&
        llvm::none_of(
            batches[place->second],
            [&](size_t other) { return isReadBefore(*pieces[other].update, update.whole()); });
    if (!fits) {
      place->second = batches.size();
      batches.emplace_back();
    }
    batches[place->second].push_back(i);
  }
  for (SmallVector<size_t> &batch : batches)
    llvm::stable_sort(batch, [&](size_t a, size_t b) {
      return elementsOf(pieces[a].update->outputs.front()) >
             elementsOf(pieces[b].update->outputs.front());
    });
  return batches;
}

void replaceTogether(ArrayRef<UpdatePiece> pieces,
                     llvm::function_ref<ResultRange(OpBuilder &, TypeRange)> launch) {
  SmallVector<Type> types;
  Operation *last = pieces.front().update->whole();
  for (const UpdatePiece &piece : pieces) {
    for (Value output : piece.update->outputs)
      types.push_back(output.getType());
    if (last->isBeforeInBlock(piece.update->whole()))
      last = piece.update->whole();
  }
  OpBuilder builder(last);
  ResultRange results = launch(builder, types);
  size_t next = 0;
  for (const UpdatePiece &piece : pieces) {
    for (Value output : piece.update->outputs)
      output.replaceAllUsesWith(results[next++]);
    piece.update->erase();
  }
}

} // namespace dtc::kernels
