// What an artifact's ranks exchange in a step.
#pragma once

#include "dtc-rt/Program/ProgramView.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace dtc::driver {

struct Exchanges {
  /// Of a step and rank, one object for each role, kind, axis and size:
  ///
  ///   {"role": 0, "kind": "all_gather", "axis": "dp", "calls": 6, "bytes": 4096,
  ///    "beside_computation": 5}
  ///
  /// `axis` has the degrees along which the ranks of a group differ, as "dp,tp"; pp where they are
  /// of several stages. `bytes` is the larger of what a call reads and writes.
  nlohmann::ordered_json all;
  /// By kind, as {"all_gather": {"calls": 5, "bytes": 20480}}: what is beside computation, of the
  /// role that exchanges the most bytes so.
  nlohmann::ordered_json besideComputation;
};

/// An exchange is beside computation where something is computed between its start and the first
/// instruction that waits for it. Copies between the memories of host and device count as one, too.
Exchanges exchangesOf(const std::vector<rt::ProgramView> &programs, const rt::Manifest &manifest);

} // namespace dtc::driver
