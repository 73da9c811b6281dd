// Numbers, shapes and names as people read them.
#pragma once

#include "dtc/Plan/Search/Search.h"

namespace dtc::report {

/// "1.50 MiB", "12.3 ms", "17.5 %": about three significant digits.
std::string formatBytes(double bytes);
std::string formatSeconds(double seconds);
std::string formatPercent(double share);

/// "3", "0-7", with gaps "0,2,..,14"; "-" without any.
std::string rangeText(const std::vector<int64_t> &numbers);

/// The types of the first `devices` of a cluster and how many there are of each:
/// {{"h100", 8}, {"a100-80", 8}}.
std::vector<std::pair<std::string, int64_t>> deviceTypes(const plan::Cluster &cluster,
                                                         int64_t devices);
/// "8 x h100 + 8 x a100-80".
std::string devicesText(const plan::Cluster &cluster, int64_t devices);

/// "124439808 parameters and 36096 of padding".
std::string parametersText(const plan::Problem &problem);
/// Behind how many samples a step reads: " and 1 of padding"; "" where there is none.
std::string paddedSamplesText(int64_t samples);

/// "h.3.ln" and "h.11.ln" both become "h.*.ln".
std::string familyOf(const std::string &name);

/// "all_reduce" and so on, as in `dtc plan --json`.
const char *collectiveName(sharding::StepKind kind);
const char *collectiveName(const plan::CollectiveUse &use);

/// What differs from a plain plan: "dp=4 tp=2 zero=1 micro_batch=1 x 8".
std::string degreesText(const plan::Degrees &degrees);

/// "1.20 TiB of 8 ranks in node 0, of 2.00 TiB"; and where that isn't checked.
std::string hostText(const plan::HostUse &host);
/// "1.50 GiB short", of a device's memory or, where that has room, of a host's; "" if it fits.
std::string shortText(const plan::Prediction &predicted);

/// "pipeline rank 2", "pipeline ranks 0-1".
std::string ranksText(int64_t first, int64_t last);
/// Those of a stage group.
std::string groupRanksText(const plan::Degrees &degrees, size_t group);

} // namespace dtc::report
