// Calls in words, for comparisons: "F0 B0 ..."; chunks above 0 as "F0.1".
#pragma once

#include "dtc/Schedule/Schedule.h"

#include <string>
#include <vector>

namespace dtc::schedule {

inline std::string text(const std::vector<Call> &calls) {
  std::string result;
  for (const Call &call : calls) {
    result += (result.empty() ? "" : " ") + std::string(1, "FBIW"[int(call.pass)]) +
              std::to_string(call.microbatch);
    if (call.chunk > 0)
      result += "." + std::to_string(call.chunk);
  }
  return result;
}

} // namespace dtc::schedule
