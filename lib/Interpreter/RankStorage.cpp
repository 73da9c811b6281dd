#include "RankStorage.h"

#include "Kernels.h"

using namespace mlir;

namespace dtc::interpreter {

std::optional<RankStorage> RankStorage::of(DictionaryAttr attributes, const sharding::Mesh &mesh) {
  auto attr = attributes ? attributes.getAs<dist::ShardingAttr>(dist::DistDialect::kSharding)
                         : dist::ShardingAttr();
  auto sharding = attr ? dist::toSharding(attr, mesh) : std::nullopt;
  if (!sharding)
    return std::nullopt;
  auto flat = attributes.getAs<dist::FlatAttr>(dist::DistDialect::kFlat);
  if (!flat)
    return RankStorage{*sharding, {}};
  auto axes = dist::toAxes(flat.getAxes(), mesh);
  RankStorage storage{{{}, sharding->partial}, axes.value_or(sharding::AxisList())};
  for (dist::AxesAttr dim : flat.getDims()) {
    auto split = dist::toAxes(dim, mesh);
    if (!split || !axes)
      return std::nullopt;
    storage.sharding.dims.push_back(*split);
  }
  return storage;
}

Tensors RankStorage::divide(const Tensor &tensor, RankedTensorType local,
                            const sharding::Mesh &mesh) const {
  Tensors shards = shard(tensor, sharding, mesh);
  if (flatAxes.empty())
    return shards;
  Tensors parts;
  int64_t size = local.getNumElements();
  for (auto [rank, whole] : llvm::enumerate(shards)) {
    Tensor part(local);
    int64_t begin = mesh.position(static_cast<int64_t>(rank), flatAxes) * size;
    auto copy = [&](auto &out, const auto &in) {
      for (int64_t i = 0; i < size; ++i)
        out[i] = begin + i < static_cast<int64_t>(in.size()) ? in[begin + i] : 0;
    };
    onElements(copy, part, whole);
    parts.push_back(std::move(part));
  }
  return parts;
}

std::optional<Tensor> RankStorage::join(const Tensors &parts, const sharding::Mesh &mesh,
                                        RankedTensorType type, double tolerance) const {
  if (flatAxes.empty())
    return unshard(parts, sharding, mesh, type, tolerance);
  auto local = RankedTensorType::get(sharding.localShape(type.getShape().vec(), mesh),
                                     type.getElementType());
  Tensors shards;
  for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
    Tensor whole(local);
    bool isPadded = true;
    std::vector<int64_t> group = mesh.group(rank, flatAxes);
    for (auto [position, member] : llvm::enumerate(group)) {
      auto copy = [&](auto &out, const auto &in) {
        size_t begin = position * in.size();
        for (size_t i = 0; i < in.size(); ++i)
          if (begin + i < out.size())
            out[begin + i] = in[i];
          else
            isPadded &= in[i] == 0;
      };
      onElements(copy, whole, parts[member]);
    }
    if (!isPadded)
      return std::nullopt;
    shards.push_back(std::move(whole));
  }
  return unshard(shards, sharding, mesh, type, tolerance);
}

bool RankStorage::fits(ArrayRef<int64_t> local, ArrayRef<int64_t> whole,
                       const sharding::Mesh &mesh) const {
  std::vector<int64_t> shard = sharding.localShape(whole.vec(), mesh);
  if (flatAxes.empty())
    return local.vec() == shard;
  int64_t elements = 1;
  for (int64_t size : shard)
    elements *= size;
  return local.size() == 1 && local[0] * mesh.size(flatAxes) >= elements;
}

} // namespace dtc::interpreter
