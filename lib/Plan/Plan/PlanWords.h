// Words of plan files.
#pragma once

#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

inline constexpr std::pair<sharding::ReduceKind, const char *> partialNames[] = {
    {sharding::ReduceKind::Sum, "sum"},
    {sharding::ReduceKind::Max, "max"},
    {sharding::ReduceKind::Min, "min"}};

} // namespace dtc::plan
