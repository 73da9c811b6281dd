#include "dtc/Plan/Plan/KernelParts.h"

#include "dtc/Plan/Plan/AttentionParts.h"
#include "dtc/Sharding/RowsAcross.h"

#include <algorithm>

namespace dtc::plan {
namespace {

using KernelId = int;
/// Of a library's call. It reads what is in memory anyway.
constexpr KernelId kCall = -1;
/// More kernels, of several blocks, read tables and masks alone. These are small and count once, so
/// that a model of fewer blocks has the same parts.
constexpr size_t kMostKernels = 5;
/// Kernels that are further apart have much between them that depends on the first.
constexpr OpId kFarthest = 512;
/// Sums of so few elements are written out in a kernel of arithmetic on their results.
constexpr int64_t kWindow = 16;
/// Kernels of fewer rows than that are small (Kernels/Clusters.cpp).
constexpr int64_t kFewRows = 16, kSmallKernel = 65536;

/// A kernel of whole rows, or of arithmetic on each element.
struct Kernel {
  bool mayMerge = false;
  int64_t elements = 0, rows = 0; ///< rows of 0: element by element
  OpId first = -1, last = -1;
  bool givesRows = false; ///< a number for each row is all that it gives
  bool window = false;    ///< has sums that are written out
};

class KernelFinder {
public:
  KernelFinder(const Problem &problem, const ProblemFacts &facts)
      : problem(problem), facts(facts), kernels(problem.ops.size()), mergedInto(problem.ops.size()),
        members(problem.ops.size()), own(problem.ops.size(), false), whole(problem.values.size()),
        read(problem.values.size()) {}

  std::vector<KernelPart> run() {
    for (auto id = static_cast<OpId>(problem.ops.size()); id-- > 0;)
      addOp(id);
    for (auto id = static_cast<OpId>(problem.ops.size()); id-- > 0;)
      while (own[id] && mergeWithReader(id)) {
      }
    for (ValueId value = 0; value < static_cast<ValueId>(problem.values.size()); ++value)
      mergeReaders(value);
    return count();
  }

private:
  bool isStored(ValueId value) const {
    OpId producer = facts.producer[value];
    return facts.materialized[value] || (producer >= 0 && own[producer]);
  }
  bool isCopied(ValueId value) const;
  /// A kernel widens what the library's call has made.
  bool isWidenedProduct(const Op &op) const {
    return op.widened && op.kind == OpKind::Contraction && !multipliesCopies(problem, op);
  }
  bool isCall(OpId id) const;
  int64_t elementsOf(ValueId value) const { return problem.values[value].elements(); }
  bool isRowNorm(const Op &op) const;
  bool sumsInnermost(const Op &op) const;
  Kernel kernelOfSum(const Op &op) const;
  Kernel kernelOf(OpId id) const;
  void addOp(OpId id);
  KernelId current(KernelId kernel) const {
    while (kernel >= 0 && mergedInto[kernel] != kernel)
      kernel = mergedInto[kernel];
    return kernel;
  }
  std::vector<KernelId> currentOf(OpId id) const;
  /// Kernels that read a value, ascending; of calls -1.
  std::vector<KernelId> readersOf(ValueId value) const;
  bool isComputedIn(OpId id, KernelId kernel) const;
  bool readsAlike(ValueId value, KernelId kernel) const;
  const std::vector<KernelId> &readersIn(OpId id) const;
  bool fit(const Kernel &a, const Kernel &b) const;
  bool areAlike(const Kernel &a, const Kernel &b) const;
  bool dependsOnOthers(KernelId producer, KernelId consumer) const;
  void merge(KernelId from, KernelId into);
  bool mergeWithReader(OpId id);
  void mergeReaders(ValueId value);
  bool readsTwice(const Op &op, size_t operand) const;
  bool isWritten(OpId id, ValueId value) const;
  bool addsInPlace(OpId scatter) const;
  bool isSlice(const Op &op) const;
  bool isReadFrom(ValueId value, KernelId kernel) const;
  void findWholeReads();
  void countReads(OpId id, KernelPart &part);
  std::vector<KernelPart> count();

  const Problem &problem;
  const ProblemFacts &facts;
  std::vector<Kernel> kernels; ///< by the op that is alone in it at first
  std::vector<KernelId> mergedInto;
  std::vector<std::vector<KernelId>> members; ///< by op: the kernels that compute it
  std::vector<bool> own;                      ///< by op: whether it had a kernel of its own
  std::vector<std::vector<KernelId>> whole;   ///< by value: the kernels that read all of it
  std::vector<std::vector<KernelId>> read;    ///< by value: those of which that was counted
};

/// Adds to an ascending list of few. False: it is there already.
bool insert(std::vector<KernelId> &list, KernelId kernel) {
  auto at = std::lower_bound(list.begin(), list.end(), kernel);
  if (at != list.end() && *at == kernel)
    return false;
  list.insert(at, kernel);
  return true;
}

} // namespace

/// Whether an op puts another dimension innermost.
static bool turnsRows(const Op &op) {
  auto innermost = [](const sharding::TensorFactors &dims) {
    auto dim = std::find_if(dims.rbegin(), dims.rend(), [](const auto &of) { return !of.empty(); });
    return dim == dims.rend() ? sharding::FactorId(-1) : dim->back();
  };
  return op.kind == OpKind::Reindex && op.operands.size() == 1 &&
         innermost(op.rule->operands[0]) != innermost(op.rule->results[0]);
}

/// A part of a tensor that attention reads, and that no library reads by strides. Or a tensor that
/// is turned for a convolution.
bool KernelFinder::isCopied(ValueId value) const {
  if (facts.materialized[value])
    return false;
  if (facts.producer[value] >= 0 && turnsRows(problem.ops[facts.producer[value]]) &&
      std::ranges::any_of(facts.consumers[value],
                          [&](OpId reader) { return isConvolution(problem.ops[reader]); }))
    return true;
  const std::vector<OpId> &readers = facts.consumers[value];
  const bool isRead = std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
    return problem.ops[reader].kind == OpKind::Attention &&
           !isReadInPlace(problem, facts, reader, value);
  });
  ValueId from = value;
  while (isRead && facts.producer[from] >= 0 && !facts.materialized[from] &&
         problem.ops[facts.producer[from]].operands.size() == 1)
    from = problem.ops[facts.producer[from]].operands[0];
  return isRead && elementsOf(from) > elementsOf(value);
}

bool KernelFinder::isCall(OpId id) const {
  const Op &op = problem.ops[id];
  return op.inProduct ? isMadeWithProduct(problem, facts, id)
                      : isLibraryCall(op) && !isWidenedProduct(op);
}

/// Rather than over the batch: its statistics have the outer dimensions of what it takes.
bool KernelFinder::isRowNorm(const Op &op) const {
  const sharding::TensorFactors &whole = op.rule->operands[0],
                                &stats = op.backward ? op.rule->operands[1] : op.rule->results[1];
  return stats.size() <= whole.size() && std::equal(stats.begin(), stats.end(), whole.begin());
}

/// Rather than columns: elements that lie side by side are summed up.
bool KernelFinder::sumsInnermost(const Op &op) const {
  const std::vector<int64_t> &shape = problem.values[op.operands[0]].shape;
  for (size_t dim = shape.size(); dim-- > 0;)
    if (shape[dim] != 1)
      return std::none_of(
          op.rule->operands[0][dim].begin(), op.rule->operands[0][dim].end(),
          [&](sharding::FactorId factor) { return sharding::occurs(op.rule->results[0], factor); });
  return false;
}

Kernel KernelFinder::kernelOfSum(const Op &op) const {
  const int64_t whole = elementsOf(op.operands[0]), sums = elementsOf(op.results[0]);
  Kernel kernel{.elements = sums};
  if (sums == 1)
    return kernel;
  kernel.window = whole <= sums * kWindow;
  const bool hasRows = !kernel.window && sumsInnermost(op);
  kernel.mayMerge = kernel.window || (hasRows && (sums >= kFewRows || whole <= kSmallKernel));
  if (hasRows) {
    kernel.elements = whole;
    kernel.rows = sums;
    kernel.givesRows = true;
  }
  return kernel;
}

Kernel KernelFinder::kernelOf(OpId id) const {
  const Op &op = problem.ops[id];
  Kernel kernel{.elements = elementsOf(op.results[0])};
  if (op.kind == OpKind::Normalization && op.operands.size() > 1 && op.results.size() > 1 &&
      isRowNorm(op)) {
    kernel.elements = elementsOf(op.operands[0]);
    kernel.rows = elementsOf(op.backward ? op.operands[1] : op.results[1]);
    kernel.mayMerge = true;
  } else if (op.kind == OpKind::Loss && problem.values[op.operands[0]].shape.size() > 1) {
    kernel.elements = elementsOf(op.operands[0]);
    kernel.rows = kernel.elements / problem.values[op.operands[0]].shape.back();
    kernel.mayMerge = true;
  } else if (op.kind == OpKind::Reduction && op.operands.size() == 1) {
    kernel = kernelOfSum(op);
  } else {
    kernel.mayMerge = op.kind == OpKind::Elementwise || op.kind == OpKind::GradientSum ||
                      op.kind == OpKind::View || op.kind == OpKind::Reindex ||
                      op.kind == OpKind::Join || isWidenedProduct(op);
  }
  kernel.first = kernel.last = id;
  return kernel;
}

void KernelFinder::addOp(OpId id) {
  const Op &op = problem.ops[id];
  mergedInto[id] = id;
  if (isCall(id) || joinsInPlace(problem, facts, id) || isAddedByCall(problem, facts, id)) {
    members[id] = {kCall};
    return;
  }
  own[id] = isWidenedProduct(op) || op.kind == OpKind::GradientSum || op.kind == OpKind::Lookup ||
            std::any_of(op.results.begin(), op.results.end(), [&](ValueId value) {
              return facts.materialized[value] || isCopied(value);
            });
  if (own[id]) {
    members[id] = {id};
    kernels[id] = kernelOf(id);
    return;
  }
  std::vector<KernelId> &all = members[id];
  for (ValueId value : op.results)
    for (OpId reader : facts.consumers[value])
      if (all.size() <= kMostKernels)
        for (KernelId kernel : readersIn(reader))
          insert(all, kernel);
}

/// The kernels that read what an op reads. What is widened has been read by the library's call.
const std::vector<KernelId> &KernelFinder::readersIn(OpId id) const {
  static const std::vector<KernelId> call = {kCall};
  return isWidenedProduct(problem.ops[id]) ? call : members[id];
}

/// The same as they are now.
std::vector<KernelId> KernelFinder::currentOf(OpId id) const {
  std::vector<KernelId> result;
  for (KernelId kernel : readersIn(id))
    result.push_back(current(kernel));
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::vector<KernelId> KernelFinder::readersOf(ValueId value) const {
  std::vector<KernelId> result;
  for (OpId reader : facts.consumers[value])
    for (KernelId kernel : readersIn(reader))
      if (result.size() <= kMostKernels)
        insert(result, current(kernel));
  return result;
}

bool KernelFinder::isComputedIn(OpId id, KernelId kernel) const {
  return std::any_of(members[id].begin(), members[id].end(),
                     [&](KernelId other) { return current(other) == kernel; });
}

/// Whether a kernel's ops read a value element by element, or one number for each row.
bool KernelFinder::readsAlike(ValueId value, KernelId kernel) const {
  for (OpId reader : facts.consumers[value]) {
    if (!isComputedIn(reader, kernel))
      continue;
    const OpKind kind = problem.ops[reader].kind;
    if (kind != OpKind::Elementwise && kind != OpKind::GradientSum &&
        kind != OpKind::Normalization && kind != OpKind::Loss && kind != OpKind::Reduction)
      return false;
  }
  const Kernel &reads = kernels[kernel];
  return elementsOf(value) == reads.elements || (reads.rows && elementsOf(value) == reads.rows);
}

bool KernelFinder::fit(const Kernel &a, const Kernel &b) const {
  const bool isOnePass =
      problem.ops[a.first].backward.has_value() == problem.ops[b.first].backward.has_value();
  const bool isLoss =
      problem.ops[a.last].kind == OpKind::Loss && problem.ops[b.first].kind == OpKind::Loss;
  const bool haveRows = a.rows != b.rows && a.elements != b.elements; // in one a number for each
  const bool areOfRows =
      haveRows ? (b.rows == 0 && a.rows == b.elements) || (a.rows == 0 && b.rows == a.elements)
               : a.elements == b.elements && (a.rows == b.rows || a.rows == 0 || b.rows == 0);
  return a.mayMerge && b.mayMerge && areOfRows && (isOnePass || isLoss) &&
         std::max(a.last, b.last) - std::min(a.first, b.first) <= kFarthest;
}

/// Whether they may share what they read: both have no rows, or give a number for each of the same.
bool KernelFinder::areAlike(const Kernel &a, const Kernel &b) const {
  return fit(a, b) && a.rows == b.rows && a.window == b.window &&
         (a.rows == 0 || (a.givesRows && b.givesRows));
}

/// Whether the consumer needs what others make of what the producer makes.
bool KernelFinder::dependsOnOthers(KernelId producer, KernelId consumer) const {
  const OpId begin = kernels[producer].first, end = kernels[consumer].last;
  std::vector<bool> depends(static_cast<size_t>(std::max(0, end - begin + 1)), false);
  for (OpId id = begin; id <= end; ++id) {
    if (isComputedIn(id, producer))
      continue;
    bool isDirect = false, isIndirect = false;
    for (ValueId operand : problem.ops[id].operands)
      if (OpId made = facts.producer[operand]; made >= begin) {
        isDirect = isDirect || isComputedIn(made, producer);
        isIndirect = isIndirect || depends[static_cast<size_t>(made - begin)];
      }
    const bool isMember = isComputedIn(id, consumer);
    if (isMember && isIndirect)
      return true;
    depends[static_cast<size_t>(id - begin)] = isIndirect || (isDirect && !isMember);
  }
  return false;
}

void KernelFinder::merge(KernelId from, KernelId into) {
  Kernel &a = kernels[from], &b = kernels[into];
  mergedInto[from] = into;
  const bool isOfRows =
      (a.givesRows || a.elements == b.rows) && (b.givesRows || b.elements == a.rows);
  b.givesRows = isOfRows;
  b.window = a.window || b.window;
  b.elements = std::max(a.elements, b.elements);
  b.rows = std::max(a.rows, b.rows);
  b.first = std::min(a.first, b.first);
  b.last = std::max(a.last, b.last);
}

/// What is stored anyway, or for nobody else, is read by the nearest kernel as it is made.
bool KernelFinder::mergeWithReader(OpId id) {
  for (ValueId value : problem.ops[id].results) {
    std::vector<KernelId> readers = readersOf(value);
    std::sort(readers.begin(), readers.end(), [&](KernelId a, KernelId b) {
      return a != kCall && b != kCall ? kernels[a].first < kernels[b].first : a > b;
    });
    const KernelId made = current(id);
    auto isTooLong = [&](KernelId reader) { // as a row that is read across
      return turnsRows(problem.ops[id]) && kernels[reader].rows &&
             elementsOf(value) > kernels[reader].rows * sharding::kMostColumnsAcross;
    };
    for (KernelId reader : readers)
      if (reader != kCall && reader != made && !isTooLong(reader) &&
          fit(kernels[made], kernels[reader]) && readsAlike(value, reader) &&
          !dependsOnOthers(made, reader)) {
        merge(made, reader);
        return true;
      }
  }
  return false;
}

/// Arithmetic on equally many elements that reads a tensor in common.
void KernelFinder::mergeReaders(ValueId value) {
  if (!isStored(value) || facts.consumers[value].size() < 2)
    return;
  const std::vector<KernelId> readers = readersOf(value);
  if (readers.size() > kMostKernels)
    return;
  for (size_t i = 0; i < readers.size(); ++i)
    for (size_t j = i + 1; j < readers.size(); ++j) {
      const KernelId a = current(readers[i]), b = current(readers[j]);
      if (a == kCall || b == kCall || a == b)
        continue;
      const Kernel &first = kernels[a], &second = kernels[b];
      if (areAlike(first, second) && elementsOf(value) >= first.elements &&
          !dependsOnOthers(a, b) && !dependsOnOthers(b, a))
        merge(b, a);
    }
}

/// The gradients of a norm's parameters are sums of columns, which another kernel makes.
bool KernelFinder::readsTwice(const Op &op, size_t operand) const {
  return op.kind == OpKind::Normalization && op.backward && op.results.size() > 1 &&
         (operand == 0 || (operand > 1 && problem.values[op.operands[operand]].shape ==
                                              problem.values[op.operands[0]].shape));
}

bool KernelFinder::isWritten(OpId id, ValueId value) const {
  if (facts.isResult[value])
    return true;
  const KernelId made = current(id);
  return std::any_of(
      facts.consumers[value].begin(), facts.consumers[value].end(), [&](OpId reader) {
        const Op &op = problem.ops[reader];
        for (size_t i = 0; i < op.operands.size(); ++i)
          if (op.operands[i] == value && readsTwice(op, i))
            return true;
        const std::vector<KernelId> in = currentOf(reader);
        return std::any_of(in.begin(), in.end(), [&](KernelId kernel) { return kernel != made; });
      });
}

/// A sum by index is added to the other terms of the one sum that reads it.
bool KernelFinder::addsInPlace(OpId scatter) const {
  const Op &op = problem.ops[scatter];
  if (op.kind != OpKind::Lookup || !op.backward || op.results.size() != 1 || op.operands.size() < 2)
    return false;
  const std::vector<OpId> &readers = facts.consumers[op.results[0]];
  return readers.size() == 1 && !facts.isResult[op.results[0]] &&
         problem.ops[readers[0]].kind == OpKind::GradientSum;
}

bool KernelFinder::isSlice(const Op &op) const {
  return op.kind == OpKind::Reindex && op.operands.size() == 1 &&
         elementsOf(op.results[0]) < elementsOf(op.operands[0]);
}

/// Whether a kernel finds a value in memory rather than making it.
bool KernelFinder::isReadFrom(ValueId value, KernelId kernel) const {
  const OpId producer = facts.producer[value];
  return kernel != kCall && isStored(value) &&
         (producer < 0 || !own[producer] || current(producer) != kernel);
}

void KernelFinder::findWholeReads() {
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id)
    for (ValueId value : problem.ops[id].operands)
      for (KernelId kernel : currentOf(id))
        if (!isSlice(problem.ops[id]) && isReadFrom(value, kernel))
          insert(whole[value], kernel);
}

/// What several ops of a kernel read comes from memory once.
void KernelFinder::countReads(OpId id, KernelPart &part) {
  const Op &op = problem.ops[id];
  part.reads.assign(op.operands.size(), 0);
  const std::vector<KernelId> in = currentOf(id);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueId value = op.operands[i];
    if (in.size() > kMostKernels) {
      part.reads[i] = isStored(value);
      continue;
    }
    for (KernelId kernel : in)
      if (isReadFrom(value, kernel))
        part.reads[i] += isSlice(op) ? !std::ranges::binary_search(whole[value], kernel)
                                     : insert(read[value], kernel);
    if (readsTwice(op, i))
      ++part.reads[i];
  }
}

std::vector<KernelPart> KernelFinder::count() {
  std::vector<KernelPart> parts(problem.ops.size());
  findWholeReads();
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    const Op &op = problem.ops[id];
    KernelPart &part = parts[id];
    part.addsInPlace = addsInPlace(id);
    if (isCall(id))
      continue;
    part.isCounted = op.kind != OpKind::Lookup && op.kind != OpKind::Other && !isWidenedProduct(op);
    countReads(id, part);
    for (ValueId value : op.results)
      part.writes.push_back(own[id] && isWritten(id, value));
    const KernelId kernel = own[id] ? current(id) : kCall;
    part.launches = kernel != kCall && kernels[kernel].first == id;
    if (own[id] && readsTwice(op, 0))
      part.launches += static_cast<int>(op.results.size());
    const bool takesScatter =
        op.kind == OpKind::GradientSum &&
        std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId term) {
          return facts.producer[term] >= 0 && addsInPlace(facts.producer[term]);
        });
    if (takesScatter)
      part = {.reads = std::vector<int>(op.operands.size(), 0),
              .writes = {0},
              .launches = 0,
              .isCounted = true,
              .addsInPlace = false};
  }
  return parts;
}

std::vector<KernelPart> findKernelParts(const Problem &problem, const ProblemFacts &facts) {
  return KernelFinder(problem, facts).run();
}

} // namespace dtc::plan
