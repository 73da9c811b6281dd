#include "dtc/Plan/Plan/AxisOrder.h"

#include "dtc/Plan/Plan/Plan.h"

#include <algorithm>

namespace dtc::plan {

const char *name(Axis axis) {
  static constexpr const char *names[kAxes] = {"tp", "cp", "ep", "dp", "pp"};
  auto index = static_cast<size_t>(axis);
  return index < kAxes ? names[index] : "?";
}

std::string name(const AxisOrder &order) {
  std::string text;
  for (Axis axis : order)
    text += (text.empty() ? "" : "-") + std::string(name(axis));
  return text;
}

bool isPermutation(const AxisOrder &order) {
  return std::is_permutation(order.begin(), order.end(), kDefaultOrder.begin());
}

std::optional<AxisOrder> orderFromName(const std::string &text) {
  AxisOrder order = kDefaultOrder; // the permutations, one after the other
  do
    if (name(order) == text)
      return order;
  while (std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

int64_t degreeOf(const Degrees &degrees, Axis axis) {
  switch (axis) {
  case Axis::TP:
    return degrees.tp;
  case Axis::CP:
    return degrees.cp;
  case Axis::EP:
    return degrees.ep;
  case Axis::DP:
    return degrees.dp;
  case Axis::PP:
    return degrees.pp;
  }
  return 1;
}

/// A product that broken plans can't make overflow.
static int64_t times(int64_t stride, int64_t count) {
  constexpr int64_t most = int64_t{1} << 40;
  return count > most / stride ? most : stride * std::max<int64_t>(count, 1);
}

Strides stridesOf(const Degrees &degrees) {
  Strides strides = {};
  int64_t inside = 1;
  for (Axis axis : degrees.order) {
    strides[static_cast<size_t>(axis)] = inside;
    inside = times(inside, degreeOf(degrees, axis));
  }
  return strides;
}

static bool hasDefaultStrides(const Degrees &degrees) {
  Degrees plain = degrees;
  plain.order = kDefaultOrder;
  Strides own = stridesOf(degrees), theirs = stridesOf(plain);
  return std::all_of(kDefaultOrder.begin(), kDefaultOrder.end(), [&](Axis axis) {
    auto index = static_cast<size_t>(axis);
    return degreeOf(degrees, axis) == 1 || own[index] == theirs[index];
  });
}

bool hasDefaultPlacement(const Degrees &degrees) {
  for (size_t group = 0; group < groupCount(degrees); ++group)
    if (!hasDefaultStrides(inGroup(degrees, group)))
      return false;
  return true;
}

std::string whyNotPlaced(const Degrees &degrees, bool severalTypes) {
  if ((!severalTypes && degrees.groups.empty()) || hasDefaultPlacement(degrees))
    return "";
  return "on several device types, and with stages that have meshes of their own, axes have the "
         "default order alone: order=" + name(degrees.order);
}

void setStrides(sharding::Mesh &mesh, const Strides &strides) {
  for (Axis axis : kDefaultOrder) {
    int64_t stride = strides[static_cast<size_t>(axis)];
    sharding::AxisList parts = mesh.ofDegree(name(axis));
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      mesh.axes[*part].stride = stride;
      stride = times(stride, mesh.axes[*part].size);
    }
  }
}

std::vector<int64_t> devicesOf(const Degrees &degrees, const sharding::Mesh &mesh,
                               int64_t pipelineRank) {
  sharding::Mesh placed = mesh;
  Strides strides = stridesOf(degrees);
  setStrides(placed, strides);
  std::vector<int64_t> result = {pipelineRank * strides[static_cast<size_t>(Axis::PP)]};
  for (const auto &axis : placed.axes) { // the last one's neighbours come first
    std::vector<int64_t> outer = std::move(result);
    result.clear();
    result.reserve(outer.size() * static_cast<size_t>(axis.size));
    for (int64_t device : outer)
      for (int64_t coordinate = 0; coordinate < axis.size; ++coordinate)
        result.push_back(device + coordinate * axis.stride);
  }
  return result;
}

} // namespace dtc::plan
