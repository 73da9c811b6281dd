// What the program that runs does, from YAML.
#include "SoftwareYaml.h"

#include "dtc/Plan/Plan/Preset.h"

namespace dtc::plan {

static constexpr int64_t kMostTemporaries = 100;
static constexpr int64_t kMostMetrics = 100;

/// A flag or a version: true means the newest.
Software readSwitches(YamlMap map, Software software) {
  if (map.has("flash_attention")) {
    std::string text = map.at("flash_attention").Scalar();
    if (text == "true" || text == "false")
      software.flashAttention = text == "true" ? 3 : 0;
    else
      software.flashAttention = map.within<int>("flash_attention", 0, 3);
  }
  software.fusedNorm = map.get("fused_norm", software.fusedNorm);
  software.fusedSoftmax = map.get("fused_softmax", software.fusedSoftmax);
  software.compiled = map.get("compiled", software.compiled);
  software.overlapCommunication = map.get("overlap_communication", software.overlapCommunication);
  software.waitsForKernels = map.get("waits_for_kernels", software.waitsForKernels);
  software.softmaxMultiple =
      map.number<int64_t>("softmax_multiple", 1, std::optional(software.softmaxMultiple));
  software.evenStages = map.get("even_stages", software.evenStages);
  software.waitsForBatches = map.get("waits_for_batches", software.waitsForBatches);
  software.scattersSends = map.get("scatters_sends", software.scattersSends);
  software.overlapsSends = map.get("overlaps_sends", software.overlapsSends);
  software.fusedLoss = map.get("fused_loss", software.fusedLoss);
  software.fusedRotary = map.get("fused_rotary", software.fusedRotary);
  software.lossMetrics =
      map.within<int64_t>("loss_metrics", 0, kMostMetrics, std::optional(software.lossMetrics));
  software.dropout = map.get("dropout", software.dropout);
  software.gathersAgain = map.get("gathers_again", software.gathersAgain);
  software.asyncInputGradients = map.get("async_input_gradients", software.asyncInputGradients);
  software.overlapsProducts = map.get("overlaps_products", software.overlapsProducts);
  software.gathersWeights = map.get("gathers_weights", software.gathersWeights);
  software.halfGradients = map.get("half_gradients", software.halfGradients);
  software.keepsHalfGradients = map.get("keeps_half_gradients", software.keepsHalfGradients);
  software.reducesHalfSums = map.get("reduces_half_sums", software.reducesHalfSums);
  software.castsGradients = map.get("casts_gradients", software.castsGradients);
  software.normTemporaries = map.within<int64_t>("norm_temporaries", 0, kMostTemporaries,
                                                 std::optional(software.normTemporaries));
  software.flattens = map.get("flattens", software.flattens);
  software.updateTemporaries = map.within<int64_t>("update_temporaries", 0, kMostTemporaries,
                                                   std::optional(software.updateTemporaries));
  software.ownersBroadcast = map.get("owners_broadcast", software.ownersBroadcast);
  software.bucketElements =
      map.number<int64_t>("bucket_elements", 0, std::optional(software.bucketElements));
  software.lazyLoading = map.get("lazy_loading", software.lazyLoading);
  software.updatesFirst = map.get("updates_first", software.updatesFirst);
  software.updatesOnHost = map.get("updates_on_host", software.updatesOnHost);
  software.cachingAllocator = map.get("caching_allocator", software.cachingAllocator);
  map.finish();
  return software;
}

/// That of a preset in bf16, the usual precision: a file of a cluster doesn't say which.
static Software namedSoftware(const YamlMap &map, const YAML::Node &node) {
  Result<const Preset *> preset = findPreset(node.Scalar());
  if (!preset)
    map.fail(node, preset.error().message);
  return (*preset)->software.at("bf16");
}

Software readSoftware(YamlMap &parent, Software software) {
  YAML::Node node = parent.at("software");
  if (node.IsScalar())
    return namedSoftware(parent, node);
  YamlMap map = parent.map("software");
  if (map.has("preset"))
    software = namedSoftware(map, map.at("preset"));
  return readSwitches(std::move(map), software);
}

} // namespace dtc::plan
