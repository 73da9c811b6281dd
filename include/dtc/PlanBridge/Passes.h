#pragma once

namespace dtc::planbridge {

/// `--dtc-plan="devices=4 plan=dp=2,tp=2 cluster=cpu"`: extracts, plans,
/// verifies and applies; `--dtc-print-problem`: prints the problem as JSON.
void registerPlanBridgePasses();

} // namespace dtc::planbridge
