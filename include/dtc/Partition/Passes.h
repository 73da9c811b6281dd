#pragma once

namespace dtc::partition {

/// `--dtc-partition` and its contract, `--dtc-verify-partition`.
void registerPartitionPasses();

} // namespace dtc::partition
