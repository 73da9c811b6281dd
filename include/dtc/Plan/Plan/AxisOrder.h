// In which order the axes of parallelism lie on the devices.
//
// Devices are numbered as the cluster has them: first those below one switch of the
// innermost links. The innermost axis of the order joins neighbours, each further one
// takes strides as long as all within it. 16 devices in nodes of 8, tp=4 dp=2 pp=2:
//
//   order (innermost first)   strides         devices of stage 0
//   tp-cp-ep-dp-pp            tp 1 dp 4 pp 8  0 to 7
//   tp-cp-ep-pp-dp            tp 1 pp 4 dp 8  0 to 3 and 8 to 11
//
// The first is what Megatron-LM does unless told otherwise (its `order`, whose notation this is).
// Stages send each other results through the network, and gradients are summed inside nodes. With
// the second it is the other way round.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace dtc::plan {

/// In the default order.
enum class Axis : uint8_t { TP, CP, EP, DP, PP };
inline constexpr int kAxes = 5;

/// Innermost first; each axis once.
using AxisOrder = std::array<Axis, kAxes>;
inline constexpr AxisOrder kDefaultOrder = {Axis::TP, Axis::CP, Axis::EP, Axis::DP, Axis::PP};

/// By axis: how far apart on the devices neighbours along it are.
using Strides = std::array<int64_t, kAxes>;

const char *name(Axis axis);
/// "tp-cp-ep-dp-pp"
std::string name(const AxisOrder &order);
/// Nothing where an axis is unknown, missing or given twice.
std::optional<AxisOrder> orderFromName(const std::string &name);
/// Whether it has each axis once.
bool isPermutation(const AxisOrder &order);

} // namespace dtc::plan
