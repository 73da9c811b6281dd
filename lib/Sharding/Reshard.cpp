#include "dtc/Sharding/Reshard.h"

#include <algorithm>

namespace dtc::sharding {

namespace {

/// Finds the steps one after another; each brings the present sharding nearer
/// to the target.
class Resharder {
public:
  Resharder(const TensorSharding &from, const TensorSharding &to, const Mesh &mesh)
      : now(from), to(to), mesh(mesh) {}

  std::vector<ReshardStep> run();

private:
  bool slice();
  bool reduceScatter();
  bool allToAll();
  bool allReduce();
  bool permute();
  bool allGather();

  bool isPrefix(size_t dim) const;
  size_t commonPrefix(size_t dim) const;
  bool isFree(AxisId axis) const { return !now.splits(axis) && !now.isPartial(axis); }
  const Partial *pendingOn(AxisId axis) const;
  void resolve(const AxisList &axes);
  void emit(ReshardStep step);

  TensorSharding now;
  const TensorSharding &to;
  const Mesh &mesh;
  std::vector<ReshardStep> steps;
};

} // namespace

size_t Resharder::commonPrefix(size_t dim) const {
  const AxisList &a = now.dims[dim], &b = to.dims[dim];
  size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length])
    ++length;
  return length;
}

/// Whether `to` only adds minor axes to the dimension.
bool Resharder::isPrefix(size_t dim) const { return commonPrefix(dim) == now.dims[dim].size(); }

/// The pending reduction over `axis` if it has to be resolved.
const Partial *Resharder::pendingOn(AxisId axis) const {
  if (to.isPartial(axis))
    return nullptr;
  auto it = std::find_if(now.partial.begin(), now.partial.end(),
                         [&](const Partial &p) { return p.axis == axis; });
  return it == now.partial.end() ? nullptr : &*it;
}

void Resharder::resolve(const AxisList &axes) {
  std::erase_if(now.partial, [&](const Partial &p) {
    return std::find(axes.begin(), axes.end(), p.axis) != axes.end();
  });
}

void Resharder::emit(ReshardStep step) {
  step.after = now;
  steps.push_back(std::move(step));
}

bool Resharder::slice() {
  for (size_t dim = 0; dim < now.dims.size(); ++dim) {
    if (!isPrefix(dim))
      continue;
    AxisList axes;
    for (size_t i = now.dims[dim].size(); i < to.dims[dim].size() && isFree(to.dims[dim][i]); ++i)
      axes.push_back(to.dims[dim][i]);
    if (axes.empty())
      continue;
    now.dims[dim].insert(now.dims[dim].end(), axes.begin(), axes.end());
    emit({StepKind::Slice, axes, static_cast<int>(dim), -1, ReduceKind::Sum, {}});
    return true;
  }
  return false;
}

bool Resharder::reduceScatter() {
  for (size_t dim = 0; dim < now.dims.size(); ++dim) {
    if (!isPrefix(dim))
      continue;
    AxisList axes;
    ReduceKind kind = ReduceKind::Sum;
    for (size_t i = now.dims[dim].size(); i < to.dims[dim].size(); ++i) {
      const Partial *pending = pendingOn(to.dims[dim][i]);
      if (!pending || (!axes.empty() && pending->kind != kind))
        break;
      kind = pending->kind;
      axes.push_back(pending->axis);
    }
    if (axes.empty())
      continue;
    now.dims[dim].insert(now.dims[dim].end(), axes.begin(), axes.end());
    resolve(axes);
    emit({StepKind::ReduceScatter, axes, static_cast<int>(dim), -1, kind, {}});
    return true;
  }
  return false;
}

/// Moves the longest run of minor axes of one dimension that is what another
/// dimension needs next.
bool Resharder::allToAll() {
  for (size_t source = 0; source < now.dims.size(); ++source)
    for (size_t begin = commonPrefix(source); begin < now.dims[source].size(); ++begin) {
      AxisList axes(now.dims[source].begin() + begin, now.dims[source].end());
      for (size_t target = 0; target < now.dims.size(); ++target) {
        if (target == source || !isPrefix(target))
          continue;
        size_t have = now.dims[target].size();
        if (to.dims[target].size() < have + axes.size() ||
            !std::equal(axes.begin(), axes.end(), to.dims[target].begin() + have))
          continue;
        now.dims[source].resize(begin);
        now.dims[target].insert(now.dims[target].end(), axes.begin(), axes.end());
        emit({StepKind::AllToAll, axes, static_cast<int>(target), static_cast<int>(source),
              ReduceKind::Sum, {}});
        return true;
      }
    }
  return false;
}

/// One reduction for all axes of a kind that have to be resolved.
bool Resharder::allReduce() {
  AxisList axes;
  ReduceKind kind = ReduceKind::Sum;
  for (const Partial &partial : now.partial) {
    if (!pendingOn(partial.axis) || (!axes.empty() && partial.kind != kind))
      continue;
    kind = partial.kind;
    axes.push_back(partial.axis);
  }
  if (axes.empty())
    return false;
  resolve(axes);
  emit({StepKind::AllReduce, axes, -1, -1, kind, {}});
  return true;
}

/// Where both sides cut every dimension into equally many parts, ranks only
/// have to swap them.
bool Resharder::permute() {
  AxisList axes;
  for (size_t dim = 0; dim < now.dims.size(); ++dim) {
    if (mesh.size(now.dims[dim]) != mesh.size(to.dims[dim]))
      return false;
    if (now.dims[dim] == to.dims[dim])
      continue;
    axes.insert(axes.end(), now.dims[dim].begin(), now.dims[dim].end());
    axes.insert(axes.end(), to.dims[dim].begin(), to.dims[dim].end());
  }
  if (axes.empty())
    return false;
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  now.dims = to.dims;
  emit({StepKind::Permute, axes, -1, -1, ReduceKind::Sum, {}});
  return true;
}

bool Resharder::allGather() {
  for (size_t dim = 0; dim < now.dims.size(); ++dim) {
    if (isPrefix(dim))
      continue;
    size_t keep = commonPrefix(dim);
    AxisList axes(now.dims[dim].begin() + keep, now.dims[dim].end());
    now.dims[dim].resize(keep);
    emit({StepKind::AllGather, axes, static_cast<int>(dim), -1, ReduceKind::Sum, {}});
    return true;
  }
  return false;
}

std::vector<ReshardStep> Resharder::run() {
  // Cheapest first: what shrinks the tensor, then what moves it at its size,
  // then what makes it larger.
  while (now != to)
    if (!(slice() || reduceScatter() || allToAll() || allReduce() || permute() || allGather()))
      break;
  return std::move(steps);
}

std::optional<std::vector<ReshardStep>> reshard(const TensorSharding &from,
                                                const TensorSharding &to, const Mesh &mesh) {
  if (from.dims.size() != to.dims.size())
    return std::nullopt;
  for (const Partial &partial : to.partial)
    if (std::find(from.partial.begin(), from.partial.end(), partial) == from.partial.end())
      return std::nullopt;
  std::vector<ReshardStep> steps = Resharder(from, to, mesh).run();
  if (!steps.empty() && steps.back().after != to)
    return std::nullopt;
  return steps;
}

std::vector<int64_t> permuteSources(const TensorSharding &before, const TensorSharding &after,
                                    const AxisList &axes, const Mesh &mesh) {
  std::vector<int64_t> group = mesh.group(0, axes);
  auto blocks = [&](const TensorSharding &sharding) {
    std::vector<std::vector<int64_t>> result;
    for (int64_t rank : group) {
      std::vector<int64_t> block;
      for (const AxisList &dim : sharding.dims)
        block.push_back(mesh.position(rank, dim));
      result.push_back(std::move(block));
    }
    return result;
  };
  std::vector<std::vector<int64_t>> have = blocks(before), want = blocks(after);
  std::vector<int64_t> sources(group.size(), -1);
  std::vector<bool> sent(group.size(), false);
  for (size_t i = 0; i < group.size(); ++i)
    if (have[i] == want[i]) {
      sources[i] = static_cast<int64_t>(i);
      sent[i] = true;
    }
  for (size_t i = 0; i < group.size(); ++i)
    for (size_t j = 0; j < group.size() && sources[i] < 0; ++j)
      if (!sent[j] && have[j] == want[i]) {
        sources[i] = static_cast<int64_t>(j);
        sent[j] = true;
      }
  return sources;
}

int64_t stepBytes(const ReshardStep &step, const TensorSharding &before,
                  const std::vector<int64_t> &shape, int64_t elementBytes, const Mesh &mesh) {
  auto bytes = [&](const TensorSharding &sharding) {
    int64_t product = elementBytes;
    for (int64_t size : sharding.localShape(shape, mesh))
      product *= size;
    return product;
  };
  return std::max(bytes(before), bytes(step.after));
}

} // namespace dtc::sharding
