#include "Clusters.h"

#include "dtc/Dialect/Exec/GroupedMatmulOp.h"
#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Dialect/Graph/RandomOps.h"
#include "dtc/Kernels/IndexMath.h"

using namespace mlir;

namespace dtc::kernels {

using graph::isDear;
using graph::shapeOf;

/// Longest chain of ops that consumers repeat, and the dear ones among them.
static constexpr int64_t kLongestFree = 12;
static constexpr int kMostDear = 2;
/// A reduction of this many elements is written out where it is needed.
static constexpr int64_t kWindow = 16;
/// Rows kernels should have work for several threads, or be small.
static constexpr int64_t kFewRows = 16, kSmallKernel = 65536;
static constexpr unsigned kFewTerms = 4;
/// A look-up as much larger than its table is repeated.
static constexpr int64_t kManyRows = 16;

bool isPrimitive(Operation *op) {
  return (graph::isElementwise(op) || isa<arith::ConstantOp, KernelOpInterface>(op)) &&
         !exec::isPart(op);
}

static bool isView(Operation *op) {
  return isa<graph::BroadcastOp, graph::ReshapeOp, graph::TransposeOp, graph::SliceOp>(op);
}

/// Whether all that reads a value multiplies it and sums the products, as of weights.
static bool isFactorOfSums(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (isView(user) || isa<arith::ExtFOp>(user))
      return isFactorOfSums(user->getResult(0));
    return isa<arith::MulFOp>(user) &&
           llvm::all_of(user->getUsers(), llvm::IsaPred<graph::ReduceOp>);
  });
}

/// Looks the same rows of a small table up many times, which are not worth storing. Nor are the
/// weights of each row's expert: products read them in the table, however few rows there are.
static bool repeatsTable(Operation *op) {
  auto gather = dyn_cast<graph::GatherOp>(op);
  return gather &&
         (elementsOf(op) >= kManyRows * elementsOf(gather.getTable()) || isFactorOfSums(gather));
}

/// Reads few elements of what others read whole. Alone and before them, so that they may write
/// over it: the gradient of a loss takes the place of the logits.
static bool goesAlone(Operation *op) { return isa<graph::PickOp>(op); }

/// Reads operands that lie in memory, as a library call does.
static bool readsStored(Operation *op) { return isa<exec::GroupedMatmulOp>(op); }

/// Between float types: half precision has one around every operation.
static bool isConversion(Operation *op) { return isa<arith::ExtFOp, arith::TruncFOp>(op); }

/// The op that rounds a value, where nothing else reads it.
static Operation *roundingOf(Operation *op) {
  while (op->hasOneUse()) {
    op = *op->user_begin();
    if (isa<arith::TruncFOp>(op))
      return op;
    if (!isa<graph::ReshapeOp>(op))
      break;
  }
  return nullptr;
}

/// A sum over parameters, which must not become one kernel with all of their shapes.
static bool isSumOfScalars(Operation *op) {
  return isa<graph::SumOp>(op) && op->getNumOperands() > kFewTerms && elementsOf(op) == 1;
}

/// A sum over parameters, however few these are. A loss that is added to earlier ones is none.
static bool isSumOfTotals(Operation *op) {
  if (!isa<graph::SumOp>(op) || elementsOf(op) != 1)
    return false;
  return llvm::count_if(op->getOperands(), [](Value term) {
           Operation *maker = graph::withoutReshapes(term).getDefiningOp();
           if (maker && isConversion(maker))
             maker = maker->getOperand(0).getDefiningOp();
           return isa_and_nonnull<graph::ReduceOp, graph::SumOp>(maker);
         }) > 1;
}

// Ways from a value to an op.

/// The way from operand `number` of `op` to its result.
static Way stepOf(Operation *op, unsigned number) {
  auto inKernels = dyn_cast<KernelOpInterface>(op);
  return inKernels ? inKernels.getReach(number) : Way::Same;
}

static Way join(Way a, Way b) {
  // A row's value that is repeated along more than its columns is not the row's any more.
  if (a == Way::Rows && b == Way::Rows)
    return Way::Rows;
  return std::max(a, b);
}

void Clustering::collectUses(Value value, SmallVector<Use> &uses) const {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    bool inCluster = clusterOf.count(user), free = isFree(user);
    if (!inCluster && !free)
      continue;
    Way step = stepOf(user, use.getOperandNumber());
    if (inCluster)
      uses.push_back({user, step});
    if (free)
      for (const Use &further : usesOf(user->getResult(0)))
        uses.push_back({further.user, join(step, further.way)});
  }
}

ArrayRef<Clustering::Use> Clustering::usesOf(Value value) const {
  auto known = knownUses.find(value);
  if (known == knownUses.end()) {
    auto uses = std::make_unique<SmallVector<Use>>();
    collectUses(value, *uses); // may ask for those of other values
    known = knownUses.try_emplace(value, std::move(uses)).first;
  }
  return *known->second;
}

// What is stored, what is repeated.

void Clustering::findRequired() {
  auto require = [&](Value value) {
    value = graph::withoutReshapes(value);
    if (Operation *op = value.getDefiningOp(); op && primitives.contains(op))
      required.insert(value);
  };
  for (Operation *op : program)
    if (!primitives.contains(op) || readsStored(op))
      for (Value operand : op->getOperands())
        require(operand);
}

/// The most large leaves of what each reader computes for itself.
static size_t mostLeaves(Operation *op) { return elementsOf(op) == 1 ? 3 : 1; }

/// What a value of half precision is widened from, where readers compute that for themselves, too.
Operation *Clustering::narrowSourceOf(Operation *op) const {
  if (!isa<arith::ExtFOp>(op))
    return nullptr;
  Operation *source = graph::withoutReshapes(op->getOperand(0)).getDefiningOp();
  bool isRepeated = source && graph::isElementwise(source) && freeOps.count(source);
  return isRepeated && !isa<arith::ConstantOp>(source) ? source : nullptr;
}

Clustering::Chain Clustering::chainOf(Operation *op, bool endsAtNarrow) const {
  const bool isScalar = elementsOf(op) == 1;
  Chain chain;
  chain.ops.insert(op);
  for (size_t i = 0; i < chain.ops.size() && chain.leaves.size() <= mostLeaves(op); ++i) {
    Operation *source = endsAtNarrow ? narrowSourceOf(chain.ops[i]) : nullptr;
    if (source && elementsOf(source) == elementsOf(op)) {
      chain.leaves.insert(source->getResult(0));
      continue;
    }
    for (Value operand : chain.ops[i]->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && freeOps.count(producer))
        chain.ops.insert(producer);
      else if (isScalar || elementsOf(operand) * 8 > elementsOf(op))
        chain.leaves.insert(operand);
    }
  }
  return chain;
}

bool Clustering::isCheap(Operation *op, const Chain &chain) const {
  const bool isScalar = elementsOf(op) == 1;
  // A byte that is kept costs less than drawing again.
  if (chain.leaves.size() > mostLeaves(op) ||
      llvm::any_of(chain.ops, llvm::IsaPred<graph::PhiloxOp>))
    return false;
  // Computing again what one tensor determines saves storing it, unless columns would do so
  // for each row.
  auto dear = llvm::count_if(chain.ops, isDear);
  if (dear > kMostDear && !isScalar)
    return false;
  auto length = llvm::count_if(chain.ops, [](Operation *op) { return !isConversion(op); });
  return length <= kLongestFree && (isScalar || dear == 0 || !leavingRows.contains(op));
}

bool Clustering::isCheapElementwise(Operation *op) const {
  return graph::isElementwise(op) && !isRequired(op->getResult(0)) &&
         isCheap(op, chainOf(op, /*endsAtNarrow=*/false));
}

void Clustering::findLeavingRows() {
  for (Operation *op : llvm::reverse(program)) {
    if (!primitives.contains(op))
      continue;
    bool leaves = llvm::any_of(op->getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      return primitives.contains(user) && (stepOf(user, use.getOperandNumber()) >= Way::Repeated ||
                                           (leavingRows.contains(user) && isView(user)));
    });
    if (leaves)
      leavingRows.insert(op);
  }
}

void Clustering::findFree() {
  for (Operation *op : program) {
    if (!primitives.contains(op))
      continue;
    bool elsewhere = isRequired(op->getResult(0)) &&
                     isa<graph::TransposeOp, graph::SliceOp>(op);
    if (isa<arith::ConstantOp, graph::IotaOp, graph::PhiloxOp>(op) || (isView(op) && !elsewhere) ||
        repeatsTable(op) || isCheapElementwise(op))
      freeOps.insert(op);
  }
}

// Joining.

int Clustering::newCluster(Operation *op) {
  clusters.emplace_back();
  Cluster &cluster = clusters.back();
  cluster.ops.insert(op);
  cluster.special = hasOwnLoops(op) || goesAlone(op);
  cluster.sumOfScalars = isSumOfScalars(op);
  cluster.sumOfTotals = isSumOfTotals(op);
  clusterOf[op] = clusters.size() - 1;
  if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    int64_t results = elementsOf(op);
    cluster.total = results == 1;
    cluster.window = elementsOf(reduce.getInput()) <= results * kWindow;
    cluster.columns = !cluster.window && !reducesInnermost(reduce);
    cluster.rows = cluster.window || cluster.columns ? 0 : results;
  }
  return clusters.size() - 1;
}

/// What `rows` rows need of a cluster that shall have them.
bool Clustering::fitsRows(int64_t rows, const Cluster &cluster) const {
  if (cluster.special || cluster.columns || cluster.window ||
      (cluster.rows != 0 && cluster.rows != rows))
    return false;
  int64_t largest = rows;
  for (Operation *op : cluster.ops) {
    if (movedOps.count(op))
      continue;
    // One thread would do what follows a whole reduction.
    if (rows == 1 && cluster.rows != 1 && elementsOf(op) != 1)
      return false;
    if (elementsOf(op) % rows != 0)
      return false;
    largest = std::max(largest, elementsOf(op));
  }
  return rows >= kFewRows || largest <= kSmallKernel;
}

/// Whether totals have a kernel of their own beside that of their sum. Where a kernel makes many
/// totals at a time, few are left over, and launches cost more.
bool Clustering::staysApart(bool isTotal, const Cluster &sum) const {
  return isTotal && sum.sumOfTotals && limits.pieces < 2;
}

static bool reducesSuffix(graph::ReduceOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  bool inside = true;
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
    if (shape[dim] == 1)
      continue;
    bool reduced = llvm::is_contained(op.getDims(), dim);
    if (reduced && !inside)
      return false;
    inside &= reduced;
  }
  return true;
}

bool Clustering::canJoinReduction(graph::ReduceOp op, const Cluster &cluster,
                                  ArrayRef<Use> uses) const {
  int64_t rows = elementsOf(op.getResult());
  if (!fitsRows(rows, cluster) || !reducesSuffix(op))
    return false;
  return llvm::all_of(uses, [&](const Use &use) {
    return (use.way == Way::Same || use.way == Way::Rows) && !movedOps.count(use.user);
  });
}

/// Behind sums that keep the columns may only come arithmetic on the sums.
bool Clustering::canJoinColumns(graph::ReduceOp op, const Cluster &cluster,
                                ArrayRef<Use> uses) const {
  if (cluster.special || cluster.rows || cluster.window || cluster.columns)
    return false;
  for (Operation *other : cluster.ops)
    if (elementsOf(other) != elementsOf(op.getResult()) || movedOps.count(other) ||
        !(graph::isElementwise(other) || isa<graph::SumOp>(other)))
      return false;
  return llvm::all_of(uses, [](const Use &use) { return use.way == Way::Same; });
}

bool Clustering::canJoin(Operation *op, int number, ArrayRef<Use> uses) const {
  const Cluster &cluster = clusters[number];
  if (cluster.ops.size() >= limits.ops || isSumOfScalars(op) || goesAlone(op))
    return false;
  if (hasOwnLoops(op)) // a sum by index may be added to something
    return isa<graph::ScatterAddOp>(op) && cluster.ops.size() == 1 && op->hasOneUse() &&
           isa<graph::SumOp, arith::AddFOp>(*op->user_begin()) &&
           cluster.ops.contains(*op->user_begin());
  if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    if (staysApart(elementsOf(op) == 1, cluster))
      return false;
    if (elementsOf(reduce.getInput()) > elementsOf(op) * kWindow)
      return reducesInnermost(reduce) ? canJoinReduction(reduce, cluster, uses)
                                      : canJoinColumns(reduce, cluster, uses);
    // A window: once for each element of the result.
    if (reducesInnermost(reduce) && canJoinReduction(reduce, cluster, uses) && cluster.rows != 0)
      return true;
    if (cluster.rows || cluster.columns || cluster.special)
      return false;
    for (Operation *other : cluster.ops)
      if (elementsOf(other) > elementsOf(op))
        return false;
    return llvm::all_of(uses, [](const Use &use) { return use.way <= Way::Same; });
  }
  for (const Use &use : uses) {
    // What a window reduces is asked for several times only if windows overlap, which they don't.
    bool ok = use.way == Way::Same || (use.way == Way::Moved && !isDear(op)) ||
              (use.way == Way::Rows && cluster.rows == elementsOf(op)) ||
              (use.way == Way::Repeated && elementsOf(op) == 1);
    if (!ok)
      return false;
  }
  return true;
}

void Clustering::assign(Operation *op) {
  ArrayRef<Use> uses = usesOf(op->getResult(0));
  bool stored = isRequired(op->getResult(0));
  if (uses.empty() && !stored)
    return;
  int number = uses.empty() ? -1 : clusterOf.lookup(uses.front().user);
  auto isOther = [&](const Use &use) { return clusterOf.lookup(use.user) != number; };
  if (stored || llvm::any_of(uses, isOther) || !canJoin(op, number, uses)) {
    if (stored || !storeNarrowSource(op))
      storeRounded(op, newCluster(op));
    return;
  }
  Cluster &cluster = clusters[number];
  cluster.ops.insert(op);
  clusterOf[op] = number;
  for (const Use &use : uses)
    if (use.way == Way::Moved || use.way == Way::Repeated || movedOps.count(use.user))
      movedOps.insert(op);
  cluster.special |= hasOwnLoops(op);
  cluster.sumOfTotals |= isSumOfTotals(op);
  if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    cluster.total |= elementsOf(op) == 1;
    if (elementsOf(reduce.getInput()) <= elementsOf(op) * kWindow && cluster.rows == 0)
      cluster.window = true;
    else if (reducesInnermost(reduce))
      cluster.rows = elementsOf(op);
    else
      cluster.columns = true;
  }
}

/// What nothing reads but rounded is rounded before it is stored.
void Clustering::storeRounded(Operation *op, int number) {
  Operation *rounding = roundingOf(op);
  if (!rounding || clusters[number].special || elementsOf(op) == 1)
    return;
  if (auto known = clusterOf.find(rounding); known != clusterOf.end()) {
    OpSet &with = clusters[known->second].ops;
    if (with.size() == 1)
      return;
    with.remove(rounding);
  }
  freeOps.erase(rounding);
  movedOps.erase(rounding);
  clusters[number].ops.insert(rounding);
  clusterOf[rounding] = number;
  for (Operation *read = op; read != rounding; read = *read->user_begin())
    knownUses.erase(read->getResult(0));
}

/// Stores what a value follows from in half precision, by cheap arithmetic, instead of the value.
bool Clustering::storeNarrowSource(Operation *op) {
  if (!graph::isElementwise(op))
    return false;
  const Chain chain = chainOf(op, /*endsAtNarrow=*/true);
  if (chain.leaves.size() != 1 || !isCheap(op, chain))
    return false;
  Operation *source = chain.leaves[0].getDefiningOp();
  if (!source || !freeOps.erase(source))
    return false;
  freeOps.insert(op);
  return true;
}

Clustering::Clustering(func::FuncOp func, target::KernelLimits limits)
    : func(func), limits(limits) {
  size_t size = func.getBody().front().getOperations().size();
  position.reserve(size);
  primitives.reserve(size);
  clusterOf.reserve(size);
  freeOps.reserve(size);
  knownUses.reserve(size);
  for (Operation &op : func.getBody().front()) {
    position[&op] = program.size();
    program.push_back(&op);
    if (isPrimitive(&op))
      primitives.insert(&op);
  }
  findRequired();
  findLeavingRows();
  findFree();
  for (Operation *op : llvm::reverse(program))
    if (primitives.contains(op) && (!isFree(op) || isRequired(op->getResult(0)))) {
      // A reshape that only library calls see stays a view.
      if (isa<graph::ReshapeOp>(op))
        continue;
      assign(op);
    }
  lineUp();
  // Reverse program order numbered consumers first.
  for (bool changed = true; changed;) {
    changed = false;
    for (int number = 0; number < static_cast<int>(clusters.size()); ++number)
      if (!clusters[number].merged)
        changed |= mergeVertically(number);
  }
  mergeSiblings();
}

// Results.

SmallVector<Operation *> Clustering::inProgramOrder(ArrayRef<Operation *> ops) const {
  SmallVector<Operation *> sorted(ops);
  llvm::sort(sorted, [&](Operation *a, Operation *b) {
    return position.lookup(a) < position.lookup(b);
  });
  return sorted;
}

SmallVector<Value> Clustering::outputsOf(int number) const {
  SmallVector<Value> outputs;
  for (Operation *op : inProgramOrder(clusters[number].ops.getArrayRef())) {
    Value value = op->getResult(0);
    bool outside = isRequired(value);
    for (const Use &use : usesOf(value))
      outside |= clusterOf.lookup(use.user) != number;
    if (outside)
      outputs.push_back(value);
  }
  return outputs;
}

Clustering::Inputs Clustering::inputsOf(int number) const {
  Inputs found;
  SmallVector<Operation *, 16> open(clusters[number].ops.begin(), clusters[number].ops.end());
  for (size_t i = 0; i < open.size(); ++i)
    for (Value operand : open[i]->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      auto known = producer ? clusterOf.find(producer) : clusterOf.end();
      bool ours = known != clusterOf.end() && known->second == number;
      if (ours)
        continue;
      // A free op that is stored somewhere is repeated nevertheless.
      if (producer && isFree(producer) && !readsStored(open[i])) {
        if (found.repeated.insert(producer))
          open.push_back(producer);
      } else {
        found.values.insert(operand);
      }
    }
  return found;
}

} // namespace dtc::kernels
