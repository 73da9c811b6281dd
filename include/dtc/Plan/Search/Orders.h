// The orders of axes on the devices that are worth telling apart.
//
// All that an order decides is how many ranks of each axis lie below one switch of
// each level of links. 32 devices in nodes of 8, tp=4 dp=4 pp=2:
//
//   order (innermost first)          in a node
//   tp-dp-pp                         tp 4  dp 2         the default
//   tp-pp-dp                         tp 4        pp 2
//   dp-tp-pp, dp-pp-tp               dp 4 with tp 2 or pp 2
//   pp-tp-dp, pp-dp-tp               pp 2 with tp 4 or dp 4
//
// pp-tp-dp is as good as tp-pp-dp, so that one of them is enough.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

/// Of each of these axes with several ranks, how many lie below one switch of each level but
/// the outermost: all that collectives over them depend on (NetworkModel::shape).
std::vector<int64_t> ranksBelow(const Cluster &cluster, const Degrees &degrees,
                                const Strides &strides, const std::vector<Axis> &axes);

/// The default order, then those that join other ranks below switches; without those
/// that join no more than another one does where `nearIsFaster`. Levels of links that
/// are almost alike (leaf and spine of a fat tree) aren't told apart. Groups that
/// straddle switches (3 ranks each in nodes of 8) are the default order's at most.
/// Several device types, and stages with meshes of their own, have the default one alone.
std::vector<AxisOrder> distinctOrders(const Degrees &degrees, const Cluster &cluster,
                                      bool nearIsFaster);

/// Whether no group of ranks that lie farther apart ever communicates faster: so it
/// is where inner links are the faster ones.
bool nearIsFaster(const CostModel &model, int64_t devices);

} // namespace dtc::plan
