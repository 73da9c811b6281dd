// Built-in devices and nodes.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"

namespace dtc::plan {

std::optional<DeviceSpec> builtinDevice(const std::string &name);
std::optional<Cluster> builtinCluster(const std::string &name);

} // namespace dtc::plan
