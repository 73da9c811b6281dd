// Facts of a plan by name.
#include "dtc/Plan/Tools/ToolSettings.h"

#include <algorithm>

namespace dtc::plan {

Facts factsOf(const Degrees &degrees, const RunFacts &run) {
  Facts facts;
  for (const Setting &setting : settings())
    if (!isList(setting))
      facts[setting.name] = valueText(setting, degrees);
  auto add = [&](const char *name, int64_t value) { facts[name] = std::to_string(value); };
  const int64_t group = degrees.zeroGroup > 0 ? degrees.zeroGroup : degrees.dp;
  const int64_t shards = degrees.zero > 0 ? std::max<int64_t>(group, 1) : 1;
  const int64_t stages = degrees.pp * degrees.chunks;
  const int64_t perNode = std::min(run.devicesPerNode, run.devices);
  add("zero_group", group);
  add("shards", shards);
  add("replicas", degrees.dp / shards);
  add("accumulation", degrees.numMicrobatches);
  add("local_batch", degrees.microBatch * degrees.numMicrobatches);
  add("global_batch", degrees.samples());
  add("data_ranks", degrees.dataRanks());
  add("devices", run.devices);
  add("devices_per_node", perNode);
  add("nodes", (run.devices + perNode - 1) / perNode);
  if (run.sequence > 0)
    add("sequence", run.sequence);
  if (run.layers > 0)
    add("layers_per_stage", run.layers / stages);
  facts["precision"] = run.precision;
  return facts;
}

} // namespace dtc::plan
