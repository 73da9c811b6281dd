#include "dtc/Plan/Search/Orders.h"

#include "dtc/Plan/Cost/NetworkModel.h"
#include "dtc/Plan/Cost/PipelineLinks.h"

#include <algorithm>
#include <functional>

namespace dtc::plan {

using sharding::StepKind;

std::vector<int64_t> ranksBelow(const Cluster &cluster, const Degrees &degrees,
                                const Strides &strides, const std::vector<Axis> &axes) {
  const int64_t devices = degrees.devices();
  std::vector<int64_t> result;
  for (Axis axis : axes)
    if (int64_t ranks = degreeOf(degrees, axis); ranks > 1)
      for (size_t i = 0; i + 1 < cluster.levels.size(); ++i)
        result.push_back(ranksBelow(cluster.levels[i].size, devices, ranks,
                                    strides[static_cast<size_t>(axis)]));
  return result;
}

static bool almostAlike(const LinkLevel &inner, const LinkLevel &outer) {
  constexpr double share = 0.9; // of latency
  return inner.bandwidth == outer.bandwidth && inner.achieved == outer.achieved &&
         inner.inSwitch == outer.inSwitch && inner.alone == outer.alone &&
         inner.rings == outer.rings && inner.latency >= share * outer.latency;
}

/// The same with levels that are almost alike as one.
static Cluster withDistinctLevels(const Cluster &cluster) {
  Cluster result = cluster;
  for (size_t i = result.levels.size(); i-- > 1;)
    if (almostAlike(result.levels[i - 1], result.levels[i]))
      result.levels.erase(result.levels.begin() + static_cast<ptrdiff_t>(i) - 1);
  return result;
}

static bool joinsNoMore(const std::vector<int64_t> &joined, const std::vector<int64_t> &than) {
  return std::equal(joined.begin(), joined.end(), than.begin(), std::less_equal<>());
}

/// All orders, the default one first; axes of one rank stay where that has them.
static std::vector<AxisOrder> permutations(const Degrees &degrees) {
  std::vector<Axis> axes;
  for (Axis axis : kDefaultOrder)
    if (degreeOf(degrees, axis) > 1)
      axes.push_back(axis);
  std::vector<AxisOrder> result;
  do {
    AxisOrder &order = result.emplace_back(kDefaultOrder);
    auto next = axes.begin();
    for (Axis &axis : order)
      if (degreeOf(degrees, axis) > 1)
        axis = *next++;
  } while (std::next_permutation(axes.begin(), axes.end()));
  return result;
}

std::vector<AxisOrder> distinctOrders(const Degrees &degrees, const Cluster &given,
                                      bool nearIsFaster) {
  if (!given.others.empty() || !degrees.groups.empty() || given.levels.size() < 2)
    return {kDefaultOrder};
  const Cluster cluster = withDistinctLevels(given);
  std::vector<std::pair<AxisOrder, std::vector<int64_t>>> list;
  const std::vector<Axis> all(kDefaultOrder.begin(), kDefaultOrder.end());
  Degrees ordered = degrees;
  for (const AxisOrder &order : permutations(degrees)) {
    ordered.order = order;
    if (!fillsSwitches(ordered, cluster))
      continue;
    std::vector<int64_t> joined = ranksBelow(cluster, ordered, stridesOf(ordered), all);
    auto covers = [&](const auto &other) {
      return other.second == joined || (nearIsFaster && joinsNoMore(joined, other.second));
    };
    if (std::none_of(list.begin(), list.end(), covers))
      list.emplace_back(order, std::move(joined));
  }
  std::vector<AxisOrder> result = {kDefaultOrder};
  for (const auto &[order, joined] : list)
    if (order != kDefaultOrder &&
        std::none_of(list.begin(), list.end(), [&, own = &joined](const auto &other) {
          return nearIsFaster && own != &other.second && joinsNoMore(*own, other.second);
        }))
      result.push_back(order);
  return result;
}

/// Of `ranks` so far apart, for buffers of all sizes.
static std::vector<double> timesOf(const CostModel &model, int64_t ranks, int64_t stride,
                                   int64_t devices) {
  sharding::Mesh mesh;
  mesh.axes = {{"outer", "dp", std::max<int64_t>(1, devices / (ranks * stride))},
               {"group", "dp", ranks},
               {"inner", "dp", stride}};
  GroupShape group = model.groupShape({1}, mesh);
  std::vector<double> times;
  for (StepKind kind : {StepKind::AllReduce, StepKind::AllGather, StepKind::ReduceScatter,
                        StepKind::AllToAll})
    for (double bytes = 1e3; bytes < 1e10; bytes *= 8)
      times.push_back(model.collectiveSeconds(kind, group, bytes));
  return times;
}

bool nearIsFaster(const CostModel &model, int64_t devices) {
  constexpr int64_t most = 1024; // ranks, and how far they are apart
  constexpr double tolerance = 1e-9;
  for (int64_t ranks = 2; ranks <= std::min(devices, most); ranks *= 2) {
    std::vector<double> nearest = timesOf(model, ranks, 1, devices);
    for (int64_t stride = 2; stride * ranks <= devices && stride <= most; stride *= 2) {
      std::vector<double> times = timesOf(model, ranks, stride, devices);
      for (size_t i = 0; i < times.size(); ++i)
        if (nearest[i] > times[i] * (1 + tolerance))
          return false;
    }
  }
  return true;
}

} // namespace dtc::plan
