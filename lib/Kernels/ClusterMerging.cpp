// The order of clusters, and which of them become one.
#include "Clusters.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Sharding/RowsAcross.h"

using namespace mlir;

namespace dtc::kernels {

/// Values with more readers are scalars and tables that all kernels read.
static constexpr size_t kMostSiblings = 32;

int Clustering::current(int node) const {
  while (node < static_cast<int>(mergedInto.size()) && mergedInto[node] != node)
    node = mergedInto[node];
  return node;
}

int Clustering::makerOf(Value value) const {
  Operation *op = value.getDefiningOp();
  while (op && isa<graph::ReshapeOp>(op) && !clusterOf.count(op))
    op = op->getOperand(0).getDefiningOp();
  if (!op)
    return -1;
  auto known = clusterOf.find(op);
  if (known != clusterOf.end())
    return known->second;
  auto other = nodeOf.find(op);
  return other == nodeOf.end() ? -1 : other->second;
}

SmallVector<int, 4> Clustering::makersOf(ValueRange values) const {
  SmallVector<int, 4> makers;
  for (Value value : values)
    if (int maker = makerOf(value); maker >= 0)
      makers.push_back(maker);
  return makers;
}

std::vector<int> Clustering::orderNodes() const {
  std::vector<std::pair<unsigned, int>> nodes; // by the place where all operands were ready
  for (int number = 0; number < static_cast<int>(clusters.size()); ++number)
    if (!clusters[number].merged)
      nodes.emplace_back(lastPosition(number), number);
  for (auto [k, op] : llvm::enumerate(others))
    nodes.emplace_back(position.lookup(op), clusters.size() + k);
  llvm::sort(nodes);

  std::vector<int> ordered;
  std::vector<bool> done(needs.size());
  // Explicit stack: a node, and whether its producers have been pushed.
  std::vector<std::pair<int, bool>> stack;
  for (auto [at, first] : nodes) {
    stack.push_back({first, false});
    while (!stack.empty()) {
      auto [node, ready] = stack.back();
      stack.pop_back();
      if (done[node])
        continue;
      if (ready) {
        done[node] = true;
        ordered.push_back(node);
        continue;
      }
      stack.push_back({node, true});
      for (int need : needs[node])
        stack.push_back({current(need), false});
    }
  }
  return ordered;
}

std::vector<Clustering::Step> Clustering::order() const {
  std::vector<Step> steps;
  int numClusters = clusters.size();
  for (int node : orderNodes())
    steps.push_back(node < numClusters ? Step{node, nullptr}
                                       : Step{-1, others[node - numClusters]});
  return steps;
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

bool Clustering::dependsOn(int node, int target, bool onlyIndirectly) {
  SmallVector<int> open;
  ++search;
  auto look = [&](int from, bool skipTarget) {
    for (int need : needs[from]) {
      int maker = current(need);
      if ((skipTarget && maker == target) || place[maker] < place[target] ||
          visited[maker] == search)
        continue;
      visited[maker] = search;
      open.push_back(maker);
    }
  };
  look(node, onlyIndirectly);
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i] == target)
      return true;
    look(open[i], false);
  }
  return false;
}

/// Of what is computed again and what is gathered again. The barriers of a block all stand where
/// its first one does, as what waits behind one may be computed with what waits behind another.
void Clustering::findBarriers() {
  barrier.assign(needs.size(), 0);
  DenseMap<int64_t, unsigned> firstOfBlock;
  auto positionOf = [&](Operation *op) -> unsigned {
    if (!isa<graph::BarrierOp>(op))
      return 0;
    const unsigned own = position.lookup(op);
    if (auto mark = op->getAttrOfType<graph::BackwardAttr>(graph::GraphDialect::kBackward))
      return firstOfBlock.try_emplace(mark.getForward(), own).first->second;
    return llvm::any_of(op->getUsers(), llvm::IsaPred<dist::AllGatherOp>) ? own : 0;
  };
  for (auto [k, op] : llvm::enumerate(others)) // in the order of the program
    barrier[clusters.size() + k] = positionOf(op);
  for (int node : line)
    for (int need : needs[node])
      barrier[node] = std::max(barrier[node], barrier[need]);
}

void Clustering::lineUp() {
  for (int number = 0; number < static_cast<int>(clusters.size()); ++number) {
    inputs.push_back(inputsOf(number));
    mergedInto.push_back(number);
  }
  for (Operation *op : program)
    if (!primitives.contains(op)) {
      nodeOf[op] = clusters.size() + others.size();
      others.push_back(op);
    }
  for (const Inputs &of : inputs)
    needs.push_back(makersOf(of.values.getArrayRef()));
  for (Operation *op : others)
    needs.push_back(makersOf(op->getOperands()));
  line = orderNodes();
  visited.assign(needs.size(), 0);
  place.assign(needs.size(), 0);
  for (auto [at, node] : llvm::enumerate(line))
    place[node] = at;
  findBarriers();
}

/// Between the places of both, what depends on the first one moves behind the second.
void Clustering::mergeInLine(int from, int into) {
  int first = std::min(place[from], place[into]), last = std::max(place[from], place[into]);
  ++search; // marks what depends on the first
  visited[line[first]] = search;
  SmallVector<int> before, after;
  for (int at = first + 1; at < last; ++at) {
    int node = line[at];
    bool depends = llvm::any_of(
        needs[node], [&](int need) { return visited[current(need)] == search; });
    if (depends)
      visited[node] = search;
    (depends ? after : before).push_back(node);
  }
  // The place of the one that is gone stays empty.
  before.push_back(into);
  before.push_back(from);
  before.append(after);
  for (auto [i, node] : llvm::enumerate(before)) {
    line[first + i] = node;
    place[node] = first + i;
  }
}

/// Whether a kernel of rows gives whole tensors to others and to this one numbers of its rows
/// alone. In one kernel with it, they would be in memory beside what it makes: probabilities that
/// are computed again would be there beside their gradients.
bool Clustering::wouldWait(int producer, int consumer, int64_t rows) const {
  auto isReadBy = [&](Value value, int number) {
    return llvm::any_of(usesOf(value),
                        [&](const Use &use) { return clusterOf.lookup(use.user) == number; });
  };
  bool givesWhole = false;
  for (Value output : outputsOf(producer)) {
    if (elementsOf(output) == rows)
      continue;
    if (isReadBy(output, consumer))
      return false;
    givesWhole = true;
  }
  return givesWhole;
}

/// Whether a cluster turns what so many rows would read across, more columns than they should.
static bool turnsLongRows(const Cluster &cluster, int64_t rows) {
  return llvm::any_of(cluster.ops, [&](Operation *op) {
    auto transpose = dyn_cast<graph::TransposeOp>(op);
    return transpose && transpose.getPerm().back() + 1 != std::ssize(transpose.getPerm()) &&
           elementsOf(op) > rows * sharding::kMostColumnsAcross;
  });
}

/// Whether one of two clusters comes before a barrier behind which the other one waits. In one
/// kernel with a part of the forward pass, what is computed again would be there from then on.
bool Clustering::crossesBarrier(int first, int second) const {
  return lastPosition(first) < barrier[second] || lastPosition(second) < barrier[first];
}

bool Clustering::isReadElsewhere(int producer, int consumer) const {
  return llvm::any_of(outputsOf(producer), [&](Value output) {
    return isRequired(output) || llvm::any_of(usesOf(output), [&](const Use &use) {
             const int reader = clusterOf.lookup(use.user);
             return reader != consumer && reader != producer;
           });
  });
}

bool Clustering::canMerge(int producer, int consumer) {
  const Cluster &a = clusters[producer], &b = clusters[consumer];
  if (a.special || b.special || a.columns || b.columns ||
      a.ops.size() + b.ops.size() > limits.ops || (a.sumOfScalars && b.sumOfScalars) ||
      staysApart(a.total, b) || staysApart(b.total, a))
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
    if (turnsLongRows(a, rows) || !fitsRows(rows, a) || !fitsRows(rows, b) ||
        wouldWait(producer, consumer, rows))
      return false;
  } else {
    int64_t elements = elementsOf(outputsOf(producer).front());
    for (int number : {producer, consumer})
      for (Value output : outputsOf(number))
        if (elementsOf(output) != elements)
          return false;
  }
  if (crossesBarrier(producer, consumer) && isReadElsewhere(producer, consumer))
    return false;
  return !dependsOn(consumer, producer, /*onlyIndirectly=*/true);
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
  b.sumOfTotals |= a.sumOfTotals;
  b.total |= a.total;
  a.ops.clear();
  a.merged = true;
  mergedInto[from] = into;
  barrier[into] = std::max(barrier[into], barrier[from]);
  inputs[from] = {};
  needs[from].clear();
  inputs[into] = inputsOf(into);
  needs[into] = makersOf(inputs[into].values.getArrayRef());
}

bool Clustering::mergeVertically(int producer) {
  SmallVector<std::pair<unsigned, int>> consumers; // nearest first
  for (Operation *op : clusters[producer].ops)
    for (const Use &use : usesOf(op->getResult(0)))
      if (int consumer = clusterOf.lookup(use.user); consumer != producer)
        consumers.emplace_back(firstPosition(consumer), consumer);
  std::sort(consumers.begin(), consumers.end());
  consumers.erase(llvm::unique(consumers), consumers.end());
  for (auto [at, consumer] : consumers)
    if (canMerge(producer, consumer)) {
      merge(producer, consumer);
      return true;
    }
  return false;
}

/// Whether all reductions of columns in both clusters add up as many rows of as many columns.
bool Clustering::haveSameColumns(int first, int second) const {
  std::optional<ColumnShape> shape;
  for (Operation *op : llvm::concat<Operation *const>(clusters[first].ops, clusters[second].ops)) {
    auto reduce = dyn_cast<graph::ReduceOp>(op);
    if (!reduce)
      continue;
    ColumnShape own = columnShape(reduce);
    if (shape && (own.outer != shape->outer || own.reduced != shape->reduced ||
                  own.columns != shape->columns))
      return false;
    shape = own;
  }
  return true;
}

/// Whether the outputs of both have as many elements, in kernels of rows one a row. Where rows gave
/// whole tensors, one of them would wait in memory for its readers.
bool Clustering::haveSameExtent(int first, int second) const {
  SmallVector<Value> outputs = outputsOf(first), others = outputsOf(second);
  int64_t rows = clusters[first].rows, elements = rows ? rows : elementsOf(outputs.front());
  return llvm::all_of(llvm::concat<Value>(outputs, others),
                      [&](Value output) { return elementsOf(output) == elements; });
}

/// The elements of the largest tensor that a cluster reduces or, where it has no reduction, gives.
int64_t Clustering::largestReduced(int number) const {
  int64_t largest = 0;
  for (Operation *op : clusters[number].ops)
    if (auto reduce = dyn_cast<graph::ReduceOp>(op))
      largest = std::max(largest, elementsOf(reduce.getInput()));
  return largest ? largest : elementsOf(outputsOf(number).front());
}

/// Reductions of the same rows or of the same columns, or arithmetic on equally many elements, that
/// read a large tensor in common.
bool Clustering::areSiblings(int first, int second) {
  const Cluster &a = clusters[first], &b = clusters[second];
  if (a.merged || b.merged || a.special || b.special || a.rows != b.rows ||
      a.columns != b.columns || a.window != b.window || (a.sumOfScalars && b.sumOfScalars) ||
      a.ops.size() + b.ops.size() > limits.ops)
    return false;
  const ValueSet &readA = inputs[first].values, &readB = inputs[second].values;
  if (llvm::none_of(readA, [&](Value value) { return readB.contains(value); }))
    return false;
  if (!haveSameExtent(first, second) || (a.columns && !haveSameColumns(first, second)) ||
      crossesBarrier(first, second))
    return false;
  int64_t large = std::max(largestReduced(first), largestReduced(second));
  bool common = llvm::any_of(readA, [&](Value value) {
    return elementsOf(value) >= large && readB.contains(value);
  });
  return common && !dependsOn(first, second, false) && !dependsOn(second, first, false);
}

SmallVector<int> Clustering::readersOf(Value value) const {
  SmallVector<int> readers;
  for (const Use &use : usesOf(value))
    readers.push_back(clusterOf.lookup(use.user));
  std::sort(readers.begin(), readers.end());
  readers.erase(llvm::unique(readers), readers.end());
  return readers;
}

void Clustering::mergeSiblings() {
  auto mergeReaders = [&](Value value) {
    if (value.use_empty() || (value.hasOneUse() && clusterOf.count(*value.user_begin())))
      return;
    SmallVector<int> readers = readersOf(value);
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

} // namespace dtc::kernels
