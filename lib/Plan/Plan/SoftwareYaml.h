// What the program that runs does, from YAML.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/YamlReader.h"

namespace dtc::plan {

/// The key `software` of a cluster: a preset's name, or a map of switches, which may begin with
/// `preset`. What it leaves out stays as it is given.
Software readSoftware(YamlMap &parent, Software software);

/// The switches of a map.
Software readSwitches(YamlMap map, Software software);

/// A cluster whose file says of software what differs from this.
Result<Cluster> clusterFromYaml(const std::string &text, const std::string &file,
                                const Software &software);

} // namespace dtc::plan
