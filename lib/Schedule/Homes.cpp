#include "Homes.h"
#include "StepFunctions.h"

#include <algorithm>

using namespace mlir;

namespace dtc::schedule {
namespace {

using graph::RoleKind;

/// Data that every microbatch has its own of.
bool isPerMicrobatch(RoleKind kind) {
  return kind == RoleKind::Input || kind == RoleKind::Target || kind == RoleKind::Output;
}

/// Order of the homes in the arena.
int rankOf(RoleKind kind) {
  static constexpr RoleKind kOrder[] = {
      RoleKind::Parameter, RoleKind::Buffer, RoleKind::Master,   RoleKind::State,
      RoleKind::Gradient,  RoleKind::Loss,   RoleKind::GradNorm, RoleKind::Count,
      RoleKind::Scalar,    RoleKind::Input,  RoleKind::Target,   RoleKind::Output};
  return static_cast<int>(llvm::find(kOrder, kind) - std::begin(kOrder));
}

/// True where the tensor is all microbatches of the home, one after another.
bool coversAll(const Home &home, uint64_t microbatches, Type type) {
  return isPerMicrobatch(home.role.getKind()) && bytesOf(type) == microbatches * home.bytes() &&
         getElementTypeOrSelf(type) == home.type.getElementType();
}

} // namespace

uint64_t bytesOf(Type tensorType) {
  auto type = cast<RankedTensorType>(tensorType);
  uint64_t bits = type.getElementTypeBitWidth();
  return static_cast<uint64_t>(type.getNumElements()) * ((bits + 7) / 8);
}

HomeKey::HomeKey(graph::RoleAttr role) : kind(role.getKind()), name(role.getName()) {
  if (role.getState())
    state = static_cast<int>(*role.getState());
  if (role.getScalar())
    scalar = static_cast<int>(*role.getScalar());
  if (kind == RoleKind::Scalar && role.getScalar() == graph::ScalarKind::Count) {
    kind = RoleKind::Count;
    scalar = -1;
  }
}

bool runsOncePerStep(func::FuncOp function) {
  auto known = llvm::find_if(kStepFunctions, [&](const KnownFunction &candidate) {
    return candidate.name == function.getSymName();
  });
  return known == std::end(kStepFunctions) || known->cadence == Cadence::OncePerStep;
}

FailureOr<HomeTable> HomeTable::build(ModuleOp module) {
  HomeTable table;
  auto schedules = module.getOps<exec::ScheduleOp>();
  if (!llvm::hasSingleElement(schedules))
    return module.emitError("needs one exec.schedule, has: ")
           << std::distance(schedules.begin(), schedules.end());
  table.microbatches = (*schedules.begin()).getMicrobatches();
  // First what each microbatch sees, so that homes have the size of one.
  for (bool once : {false, true})
    for (auto function : module.getOps<func::FuncOp>())
      if (runsOncePerStep(function) == once && failed(table.enterSignature(function)))
        return failure();
  table.layOut();
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(table.checkWholeBatch(function)))
      return failure();
  table.findSpent(*schedules.begin());
  return table;
}

namespace {

/// The homes that a function reads, and those that it writes.
struct HomeUse {
  std::set<size_t> reads, writes;
};

HomeUse homeUse(func::FuncOp function, const HomeTable &homes) {
  HomeUse use;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    use.reads.insert(homes.find(graph::getArgRole(function, i)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    use.writes.insert(homes.find(graph::getResultRole(function, i)));
  return use;
}

} // namespace

/// Steps follow one another: after the last call comes the first.
void HomeTable::findSpent(exec::ScheduleOp schedule) {
  SymbolTable symbols(schedule->getParentOp());
  std::vector<std::pair<std::string, HomeUse>> calls;
  for (auto call : schedule.getOps<exec::CallOp>())
    if (auto function = symbols.lookup<func::FuncOp>(call.getCallee()))
      calls.emplace_back(call.getCallee().str(), homeUse(function, *this));
  std::set<std::pair<std::string, size_t>> kept;
  for (size_t i = 0; i < calls.size(); ++i)
    for (size_t home : calls[i].second.reads) {
      if (calls[i].second.writes.count(home))
        continue;
      // Without anybody who writes it, it is filled from outside.
      bool rewritten = false;
      for (size_t after = 1; after <= calls.size() && !rewritten; ++after) {
        const HomeUse &next = calls[(i + after) % calls.size()].second;
        if (next.reads.count(home))
          break;
        rewritten = next.writes.count(home);
      }
      (rewritten ? spent : kept).emplace(calls[i].first, home);
    }
  for (const auto &entry : kept) // a function is called with several neighbours
    spent.erase(entry);
}

bool HomeTable::isSpentAfter(func::FuncOp function, size_t home) const {
  return spent.count({function.getSymName().str(), home});
}

LogicalResult HomeTable::enterSignature(func::FuncOp function) {
  std::set<HomeKey> arguments, results;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(function, i);
    if (!role || !arguments.insert(HomeKey(role)).second)
      return function.emitError("argument without a role of its own: ") << i;
    if (failed(enter(function, role, function.getArgumentTypes()[i])))
      return failure();
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    graph::RoleAttr role = graph::getResultRole(function, i);
    if (!role || !results.insert(HomeKey(role)).second)
      return function.emitError("result without a role of its own: ") << i;
    if (failed(enter(function, role, function.getResultTypes()[i])))
      return failure();
  }
  return success();
}

LogicalResult HomeTable::enter(func::FuncOp function, graph::RoleAttr role, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return function.emitError("arguments and results must be tensors of static shape, got: ")
           << type;
  auto [it, isNew] = index.try_emplace(HomeKey(role), homes.size());
  if (isNew) {
    Home home;
    home.role = role;
    home.type = tensor;
    homes.push_back(home);
    return success();
  }
  const Home &home = homes[it->second];
  if (home.type == tensor || (runsOncePerStep(function) && coversAll(home, microbatches, type)))
    return success();
  return function.emitError("functions disagree about the type of ")
         << role << ": " << home.type << ", " << type;
}

void HomeTable::layOut() {
  std::vector<size_t> order(homes.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return rankOf(HomeKey(homes[a].role).kind) < rankOf(HomeKey(homes[b].role).kind);
  });
  for (size_t i : order) {
    Home &home = homes[i];
    home.offset = end;
    if (isPerMicrobatch(home.role.getKind()) && microbatches > 1) {
      // Targets follow one another closely: the prologue sees them as one tensor.
      home.count = microbatches;
      home.stride =
          home.role.getKind() == RoleKind::Target ? home.bytes() : alignUp(home.bytes());
    }
    end = alignUp(home.end());
  }
}

LogicalResult HomeTable::checkWholeBatch(func::FuncOp function) const {
  if (!runsOncePerStep(function) || microbatches == 1)
    return success();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(function, i);
    const Home &home = homes[find(role)];
    if (home.count > 1 && (home.stride != home.bytes() ||
                           !coversAll(home, microbatches, function.getArgumentTypes()[i])))
      return function.emitError("takes once a step what each microbatch has its own of: ") << role;
  }
  return success();
}

} // namespace dtc::schedule
