// Adapters that leave a run: merged into the weights that they are of, or as Hugging Face's PEFT
// stores them.
#pragma once

#include "dtc-rt/Files/Weights.h"

#include <vector>

namespace dtc::rt {

/// Refused where nothing was adapted, or where a factor has no other.
Result<std::vector<AdapterPair>> adapterPairs(const Manifest &manifest);

/// weight += scale * B A, in its own type. All are whole, as the manifest describes them.
void mergeAdapter(const Manifest &manifest, const AdapterPair &pair, char *weight, const char *a,
                  const char *b);

/// The names and files of a folder that PEFT's from_pretrained reads.
struct PeftFolder {
  static constexpr const char *kPrefix = "base_model.model.";

  explicit PeftFolder(std::string path) : path(std::move(path)) {}
  std::string weights() const { return path + "/adapter_model.safetensors"; }
  /// Makes the folder.
  Status create() const;
  /// adapter_config.json
  Status writeConfig(const Manifest &manifest, const std::vector<AdapterPair> &pairs) const;

private:
  std::string path;
};

} // namespace dtc::rt
