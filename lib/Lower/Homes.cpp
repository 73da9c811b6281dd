#include "Homes.h"

#include "dtc/Dialect/Exec/LastOf.h"
#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;

namespace dtc::lower {
namespace {

using graph::RoleKind;

/// Order of the homes in the arena.
int rankOf(RoleKind kind) {
  static constexpr RoleKind kOrder[] = {RoleKind::Parameter, RoleKind::Buffer,   RoleKind::Master,
                                        RoleKind::State,     RoleKind::Gradient, RoleKind::Loss,
                                        RoleKind::GradNorm,  RoleKind::Count,    RoleKind::Scalar,
                                        RoleKind::Input,     RoleKind::Target,   RoleKind::Output,
                                        RoleKind::Inbox,     RoleKind::Outbox,   RoleKind::Kept};
  return static_cast<int>(llvm::find(kOrder, kind) - std::begin(kOrder));
}

/// True where the tensor is all microbatches of the home, one after another.
bool coversAll(const Home &home, uint64_t microbatches, Type type) {
  return home.scope() == Scope::Microbatch && bytesOf(type) == microbatches * home.bytes() &&
         getElementTypeOrSelf(type) == home.type.getElementType();
}

} // namespace

uint64_t bytesOf(Type tensorType) {
  auto type = cast<RankedTensorType>(tensorType);
  Type element = type.getElementType();
  // MLIR looks for a float's width type by type, which shows in deep models.
  uint64_t bits = element.isF32() ? 32 : element.getIntOrFloatBitWidth();
  return static_cast<uint64_t>(type.getNumElements()) * ((bits + 7) / 8);
}

int64_t bytesInto(Value value) {
  auto element = RankedTensorType::get({1}, getElementTypeOrSelf(value));
  return exec::beginOf(value) * static_cast<int64_t>(bytesOf(element));
}

graph::RoleAttr homeRole(graph::RoleAttr role) {
  if (role.getKind() != RoleKind::Scalar || role.getScalar() != graph::ScalarKind::Count)
    return role;
  return graph::RoleAttr::get(role.getContext(), RoleKind::Count, role.getName(), role.getState(),
                              std::nullopt);
}

Scope scopeOf(RoleKind kind) {
  switch (kind) {
  case RoleKind::Input:
  case RoleKind::Target:
  case RoleKind::Output:
    return Scope::Microbatch;
  case RoleKind::Kept:
    return Scope::Slot;
  case RoleKind::Inbox:
    return Scope::Inbox;
  case RoleKind::Outbox:
    return Scope::Outbox;
  default:
    return Scope::Step;
  }
}

FailureOr<HomeTable> HomeTable::build(ModuleOp module) {
  HomeTable table;
  auto schedules = module.getOps<exec::ScheduleOp>();
  if (!llvm::hasSingleElement(schedules))
    return module.emitError("needs one exec.schedule, has: ")
           << std::distance(schedules.begin(), schedules.end());
  table.microbatches = (*schedules.begin()).getMicrobatches();
  // First what each microbatch sees, so that homes have the size of one.
  for (bool perMicrobatch : {true, false})
    for (auto function : module.getOps<func::FuncOp>())
      if (graph::runsPerMicrobatch(function) == perMicrobatch &&
          failed(table.enterSignature(function)))
        return failure();
  if (failed(table.countCopies(*schedules.begin())))
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
  HomeUse(func::FuncOp function, const HomeTable &homes)
      : function(function.getSymNameAttr()), reads(homes.getHomes().size()),
        writes(homes.getHomes().size()) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      reads.set(homes.find(graph::getArgRole(function, i)));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      writes.set(homes.find(graph::getResultRole(function, i)));
  }
  StringAttr function;
  llvm::BitVector reads, writes;
};

/// A call, and the slot that it works on.
struct SlotUse {
  const HomeUse *use;
  uint64_t slot;
};

} // namespace

/// Steps follow one another: after the last call comes the first.
void HomeTable::findSpent(exec::ScheduleOp schedule) {
  DenseMap<Attribute, HomeUse> uses;
  for (auto function : schedule->getParentOp()->getRegion(0).getOps<func::FuncOp>())
    uses.try_emplace(function.getSymNameAttr(), function, *this);
  // Messages are written by other ranks, and the host reads counts of lost rows.
  llvm::BitVector shared(homes.size()), ofSlot(homes.size());
  for (auto [i, home] : llvm::enumerate(homes))
    if (home.scope() == Scope::Slot)
      ofSlot.set(i);
    else if (home.scope() > Scope::Microbatch || graph::lostRowsOf(home.role))
      shared.set(i);
  std::vector<SlotUse> calls;
  for (auto call : schedule.getOps<exec::CallOp>())
    if (auto known = uses.find(call.getCalleeAttr().getAttr()); known != uses.end())
      calls.push_back({&known->second, call.getSlot()});
  // Without anybody who writes it, a home is filled from outside. What other slots keep there
  // lies elsewhere.
  auto isRewritten = [&](size_t call, size_t home) {
    for (size_t after = 1; after <= calls.size(); ++after) {
      const SlotUse &other = calls[(call + after) % calls.size()];
      if (ofSlot.test(home) && other.slot != calls[call].slot)
        continue;
      const HomeUse &next = *other.use;
      if (next.reads.test(home))
        return false;
      if (next.writes.test(home))
        return true;
    }
    return false;
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    llvm::BitVector rewritten = calls[i].use->reads;
    rewritten.reset(calls[i].use->writes);
    rewritten.reset(shared);
    for (unsigned home : rewritten.set_bits())
      if (!isRewritten(i, home))
        rewritten.reset(home);
    // A function is called with several neighbours: what one of them asks for is kept.
    auto [known, first] = spent.try_emplace(calls[i].use->function, rewritten);
    if (!first)
      known->second &= rewritten;
  }
}

bool HomeTable::isSpentAfter(func::FuncOp function, size_t home) const {
  auto known = spent.find(function.getSymNameAttr());
  return known != spent.end() && known->second.test(home);
}

LogicalResult HomeTable::enterSignature(func::FuncOp function) {
  if (!graph::getRuns(function))
    return function.emitError("doesn't say how often it runs (dtc.runs)");
  DenseSet<Attribute> arguments, results; // of which roles there is one
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(function, i);
    if (!role || !arguments.insert(homeRole(role)).second)
      return function.emitError("argument without a role of its own: ") << i;
    if (failed(enter(function, role, function.getArgumentTypes()[i],
                     function.getArgAttrDict(i))))
      return failure();
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    graph::RoleAttr role = graph::getResultRole(function, i);
    if (!role || !results.insert(homeRole(role)).second)
      return function.emitError("result without a role of its own: ") << i;
    if (failed(enter(function, role, function.getResultTypes()[i],
                     function.getResultAttrDict(i))))
      return failure();
  }
  return success();
}

LogicalResult HomeTable::enter(func::FuncOp function, graph::RoleAttr role, Type type,
                               DictionaryAttr attributes) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return function.emitError("arguments and results must be tensors of static shape, got: ")
           << type;
  auto find = [&]<typename T>(T, StringRef name) {
    return attributes ? attributes.getAs<T>(name) : T();
  };
  auto sharding = find(dist::ShardingAttr(), dist::DistDialect::kSharding);
  auto flat = find(dist::FlatAttr(), dist::DistDialect::kFlat);
  auto space = find(exec::SpaceAttr(), exec::ExecDialect::kSpace);
  if (auto room = find(TypeAttr(), exec::kRoom)) {
    auto whole = cast<RankedTensorType>(room.getValue());
    if (whole.getElementType() != tensor.getElementType() || bytesOf(whole) < bytesOf(tensor))
      return function.emitError("an argument or result doesn't fit into its room: ")
             << tensor << ", " << whole;
    sharding = dyn_cast_or_null<dist::ShardingAttr>(whole.getEncoding());
    tensor = RankedTensorType::get(whole.getShape(), whole.getElementType());
    type = tensor;
  }
  auto [it, isNew] = index.try_emplace(homeRole(role), homes.size());
  if (isNew) {
    Home home;
    home.role = role;
    home.type = tensor;
    // Targets that only the prologue reads: those of all microbatches, as they are loaded.
    if (!graph::runsPerMicrobatch(function) && home.scope() == Scope::Microbatch &&
        tensor.getRank() > 0 && tensor.getDimSize(0) % microbatches == 0) {
      SmallVector<int64_t> shape(tensor.getShape());
      shape.front() /= static_cast<int64_t>(microbatches);
      home.type = tensor.clone(shape);
    }
    home.sharding = sharding;
    home.flat = flat;
    home.space = space ? space.getValue() : exec::Space::Device;
    homes.push_back(home);
    return success();
  }
  Home &home = homes[it->second];
  if (!home.sharding) {
    home.sharding = sharding;
    home.flat = flat;
  }
  if (sharding && home.flat != flat)
    return function.emitError("functions disagree about how this is stored: ") << role;
  if (home.space != (space ? space.getValue() : exec::Space::Device))
    return function.emitError("functions disagree about the space of ") << role;
  if (home.type == tensor ||
      (!graph::runsPerMicrobatch(function) && coversAll(home, microbatches, type)))
    return success();
  return function.emitError("functions disagree about the type of ")
         << role << ": " << home.type << ", " << type;
}

/// The number of a call that a scope goes by.
static uint64_t numberOf(exec::CallOp call, Scope scope) {
  switch (scope) {
  case Scope::Step:
    return 0;
  case Scope::Microbatch:
    return call.getMicrobatch();
  case Scope::Slot:
    return call.getSlot();
  case Scope::Inbox:
    return call.getInbox();
  case Scope::Outbox:
    return call.getOutbox();
  }
  return 0;
}

/// Data comes for every microbatch; of the rest there is as much as calls use.
LogicalResult HomeTable::countCopies(exec::ScheduleOp schedule) {
  for (Home &home : homes)
    if (home.scope() == Scope::Microbatch)
      home.count = microbatches;
  SymbolTable symbols(schedule->getParentOp());
  for (auto call : schedule.getOps<exec::CallOp>()) {
    auto function = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!function)
      return call.emitError("calls an unknown function: ") << call.getCallee();
    auto use = [&](graph::RoleAttr role) {
      Home &home = homes[find(role)];
      if (home.scope() > Scope::Microbatch)
        home.count = std::max(home.count, numberOf(call, home.scope()) + 1);
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      use(graph::getArgRole(function, i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      use(graph::getResultRole(function, i));
  }
  return success();
}

void HomeTable::layOut() {
  std::vector<std::pair<int, size_t>> order; // by rank, then as they came
  for (auto [i, home] : llvm::enumerate(homes))
    order.emplace_back(rankOf(homeRole(home.role).getKind()), i);
  llvm::sort(order);
  for (auto [rank, i] : order) {
    Home &home = homes[i];
    uint64_t &top = home.isOnHost() ? hostEnd : end;
    if (home.scope() == Scope::Slot)
      slots = std::min(slots.value_or(end), end);
    home.offset = top;
    // Targets follow one another closely: the prologue sees them as one tensor.
    if (home.count > 1)
      home.stride =
          home.role.getKind() == RoleKind::Target ? home.bytes() : alignUp(home.bytes());
    top = alignUp(home.end());
  }
}

LogicalResult HomeTable::checkWholeBatch(func::FuncOp function) const {
  if (graph::runsPerMicrobatch(function) || microbatches == 1)
    return success();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(function, i);
    const Home &home = homes[find(role)];
    if (home.scope() == Scope::Microbatch && (home.stride != home.bytes() ||
                           !coversAll(home, microbatches, function.getArgumentTypes()[i])))
      return function.emitError("takes once a step what each microbatch has its own of: ") << role;
  }
  return success();
}

} // namespace dtc::lower
