// The order of clusters, and which of them become one.
#include "Clusters.h"

using namespace mlir;

namespace dtc::cpu {

/// Values with more readers are scalars and tables that all kernels read.
static constexpr size_t kMostSiblings = 32;

std::vector<Clustering::Step> Clustering::order() const {
  std::map<unsigned, Step> steps; // by the place where all operands were ready
  for (int number = 0; number < static_cast<int>(clusters.size()); ++number)
    if (!clusters[number].merged)
      steps[lastPosition(number)] = {number, nullptr};
  for (Operation *op : program)
    if (!isPrimitive(op))
      steps[position.lookup(op)] = {-1, op};

  std::vector<Step> ordered;
  std::set<int> doneClusters;
  DenseSet<Operation *> doneOps;
  // Explicit stack: a step, and whether its producers have been pushed.
  std::vector<std::pair<Step, bool>> stack;
  auto pushProducer = [&](Value value) {
    if (std::optional<Step> maker = makerOf(value))
      stack.push_back({*maker, false});
  };
  for (auto &[at, first] : steps) {
    stack.push_back({first, false});
    while (!stack.empty()) {
      auto [step, ready] = stack.back();
      stack.pop_back();
      bool done = step.op ? doneOps.contains(step.op) : doneClusters.count(step.cluster);
      if (done)
        continue;
      if (ready) {
        step.op ? (void)doneOps.insert(step.op) : (void)doneClusters.insert(step.cluster);
        ordered.push_back(step);
        continue;
      }
      stack.push_back({step, true});
      llvm::for_each(needsOf(step), pushProducer);
    }
  }
  return ordered;
}

unsigned Clustering::firstPosition(int number) const {
  unsigned first = program.size();
  for (Operation *op : clusters[number].ops)
    first = std::min(first, position.lookup(op));
  return first;
}

unsigned Clustering::lastPosition(int number) const {
  unsigned last = 0;
  for (Operation *op : clusters[number].ops)
    last = std::max(last, position.lookup(op));
  return last;
}

int Clustering::placeOf(const Step &step) const {
  return step.op ? opPlace.lookup(step.op) : clusterPlace[step.cluster];
}

std::optional<Clustering::Step> Clustering::makerOf(Value value) const {
  Operation *op = value.getDefiningOp();
  while (op && isa<graph::ReshapeOp>(op) && !clusterOf.count(op))
    op = op->getOperand(0).getDefiningOp();
  if (!op)
    return std::nullopt;
  auto known = clusterOf.find(op);
  if (known != clusterOf.end())
    return Step{known->second, nullptr};
  if (isPrimitive(op))
    return std::nullopt;
  return Step{-1, op};
}

SmallVector<Value> Clustering::needsOf(const Step &step) const {
  return step.op ? SmallVector<Value>(step.op->getOperands()) : reads[step.cluster];
}

bool Clustering::dependOn(ArrayRef<Value> values, int target, bool onlyIndirectly) const {
  SmallVector<Step> open;
  std::set<int> seen; // places
  auto look = [&](ArrayRef<Value> needs, bool skipTarget) {
    for (Value value : needs) {
      std::optional<Step> maker = makerOf(value);
      if (!maker || (skipTarget && maker->cluster == target))
        continue;
      if (placeOf(*maker) >= clusterPlace[target] && seen.insert(placeOf(*maker)).second)
        open.push_back(*maker);
    }
  };
  look(values, onlyIndirectly);
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i].cluster == target)
      return true;
    look(needsOf(open[i]), false);
  }
  return false;
}

void Clustering::lineUp() {
  line = order();
  clusterPlace.assign(clusters.size(), 0);
  for (auto [place, step] : llvm::enumerate(line)) {
    if (step.op)
      opPlace[step.op] = place;
    else
      clusterPlace[step.cluster] = place;
  }
}

/// Between the places of both, what depends on the first one moves behind the second.
void Clustering::mergeInLine(int from, int into) {
  int first = std::min(clusterPlace[from], clusterPlace[into]);
  int last = std::max(clusterPlace[from], clusterPlace[into]);
  std::set<int> dependent{first};
  std::vector<Step> before, after;
  for (int place = first + 1; place < last; ++place) {
    bool depends = llvm::any_of(needsOf(line[place]), [&](Value value) {
      std::optional<Step> maker = makerOf(value);
      return maker && dependent.count(placeOf(*maker));
    });
    if (depends)
      dependent.insert(place);
    (depends ? after : before).push_back(line[place]);
  }
  // The place of the one that is gone stays empty.
  before.push_back({into, nullptr});
  before.push_back({from, nullptr});
  before.insert(before.end(), after.begin(), after.end());
  for (auto [i, step] : llvm::enumerate(before)) {
    line[first + i] = step;
    if (step.op)
      opPlace[step.op] = first + i;
    else
      clusterPlace[step.cluster] = first + i;
  }
}

bool Clustering::canMerge(int producer, int consumer) const {
  const Cluster &a = clusters[producer], &b = clusters[consumer];
  if (a.special || b.special || a.columns || b.columns ||
      a.ops.size() + b.ops.size() > kMostOps ||
      (a.sumOfScalars && b.sumOfScalars))
    return false;
  int64_t rows = a.rows ? a.rows : b.rows;
  for (Operation *op : a.ops) {
    if (movedOps.count(op))
      continue;
    for (const Use &use : usesOf(op->getResult(0))) {
      if (clusterOf.lookup(use.user) != consumer)
        continue;
      bool ok = use.way == Way::Same || (use.way == Way::Rows && rows == elementsOf(op));
      if (!ok || movedOps.count(use.user))
        return false;
    }
  }
  if (rows) {
    if (!fitsRows(rows, a) || !fitsRows(rows, b))
      return false;
  } else {
    int64_t elements = elementsOf(outputsOf(producer).front());
    for (int number : {producer, consumer})
      for (Value output : outputsOf(number))
        if (elementsOf(output) != elements)
          return false;
  }
  return !dependOn(reads[consumer], producer, /*onlyIndirectly=*/true);
}

void Clustering::merge(int from, int into) {
  mergeInLine(from, into);
  Cluster &a = clusters[from], &b = clusters[into];
  for (Operation *op : a.ops) {
    b.ops.insert(op);
    clusterOf[op] = into;
  }
  b.rows = std::max(a.rows, b.rows);
  b.window |= a.window;
  b.sumOfScalars |= a.sumOfScalars;
  a.ops.clear();
  a.merged = true;
  reads[from].clear();
  reads[into] = readBy(into);
}

bool Clustering::mergeVertically(int producer) {
  std::map<unsigned, int> consumers; // nearest first
  for (Operation *op : clusters[producer].ops)
    for (const Use &use : usesOf(op->getResult(0)))
      if (int consumer = clusterOf.lookup(use.user); consumer != producer)
        consumers.try_emplace(firstPosition(consumer), consumer);
  for (auto [at, consumer] : consumers)
    if (canMerge(producer, consumer)) {
      merge(producer, consumer);
      return true;
    }
  return false;
}

/// Column sums over the same rows, or arithmetic on equally many elements, that read a large
/// tensor in common.
bool Clustering::areSiblings(int first, int second) const {
  const Cluster &a = clusters[first], &b = clusters[second];
  if (a.merged || b.merged || a.rows || b.rows || a.special || b.special || a.window ||
      b.window || a.columns != b.columns || a.ops.size() + b.ops.size() > kMostOps)
    return false;
  int64_t large = 0;
  std::optional<ColumnShape> shape;
  for (int number : {first, second}) {
    for (Value output : outputsOf(number))
      if (elementsOf(output) != elementsOf(outputsOf(first).front()))
        return false;
    for (Operation *op : clusters[number].ops) {
      auto reduce = dyn_cast<graph::ReduceOp>(op);
      if (!reduce || !a.columns)
        continue;
      ColumnShape own = columnShape(reduce);
      if (shape && (own.outer != shape->outer || own.reduced != shape->reduced ||
                    own.columns != shape->columns))
        return false;
      shape = own;
      large = elementsOf(reduce.getInput());
    }
  }
  if (!a.columns)
    large = elementsOf(outputsOf(first).front());
  ArrayRef<Value> readA = reads[first], readB = reads[second];
  bool common = llvm::any_of(readA, [&](Value value) {
    return elementsOf(value) >= large && llvm::is_contained(readB, value);
  });
  return common && !dependOn(readA, second, false) && !dependOn(readB, first, false);
}

void Clustering::mergeSiblings() {
  auto mergeReaders = [&](Value value) {
    std::set<int> readers;
    for (const Use &use : usesOf(value))
      readers.insert(clusterOf.lookup(use.user));
    if (readers.size() < 2 || readers.size() > kMostSiblings)
      return;
    for (int first : readers)
      for (int second : readers)
        if (first < second && areSiblings(first, second))
          merge(second, first);
  };
  llvm::for_each(func.getArguments(), mergeReaders);
  for (Operation *op : program)
    llvm::for_each(op->getResults(), mergeReaders);
}

} // namespace dtc::cpu
