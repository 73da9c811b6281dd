// How much longer computation and communication take while both run on a device.
#pragma once

namespace dtc::simulate {

/// Times what each takes alone; at least 1. A kernel of t seconds takes compute * t as long as
/// communication runs beside it.
struct OverlapSlowdown {
  double compute = 1, communication = 1;
  bool operator==(const OverlapSlowdown &) const = default;
};

} // namespace dtc::simulate
