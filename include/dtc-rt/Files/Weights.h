// Weights into the ranks' arenas at the start, out of them at the end.
#pragma once

#include "dtc-rt/Files/ArrayFile.h"
#include "dtc-rt/Program/Package.h"
#include "dtc-rt/Program/RankMesh.h"

#include <map>

namespace dtc::rt {

/// Where a file that the manifest describes is now.
std::string pathOf(const Package &package, const std::string &named);

/// Finds the bytes of every parameter: in the artifact or in files beside it.
class WeightReader {
public:
  /// Opens the files and checks that they are those of compile time. The
  /// package must outlive the reader.
  static Result<WeightReader> open(const Package &package, uint64_t seed);

  /// The bytes of a parameter as in the file; null when it is to be drawn.
  const char *find(size_t parameter) const { return data[parameter]; }
  /// Fills `target`, what a rank stores, with its part of a parameter's view
  /// (index into Manifest::parameters) as `dtype`: from its file, or drawn.
  void read(size_t parameter, const Part &part, DType dtype, char *target) const;

private:
  WeightReader(const Manifest &manifest, uint64_t seed) : manifest(&manifest), seed(seed) {}
  const Manifest *manifest;
  uint64_t seed;
  std::vector<const char *> data; ///< per parameter
  std::vector<MappedFile> files;
};

/// Both factors of one adapter, by their indices among the manifest's parameters.
struct AdapterPair {
  size_t base, a, b;
};

/// What a file of trained weights holds.
enum class SavedWeights : uint8_t {
  All,
  Adapters, ///< those that were made for training, alone
  Merged,   ///< all but adapters, which are added to the weights that they are of
  Peft      ///< adapters in a folder, as Hugging Face's PEFT stores them
};

/// Refuses what an artifact's adapters can't be saved as.
Status checkSaved(const Manifest &manifest, SavedWeights saved);

/// Writes parameters under the names (aliases too), shapes and types of the
/// model file. Every rank puts its shards in; then `finish` once.
class WeightWriter {
public:
  static Result<WeightWriter> create(const std::string &path, const Manifest &manifest,
                                     SavedWeights saved = SavedWeights::All,
                                     Writers writers = Writers::Any);
  /// Into memory: a place for each parameter of the manifest, none for aliases.
  static WeightWriter into(std::vector<char *> places, const Manifest &manifest);

  /// A part that the rank holds as `dtype`; call for the first holder only.
  void put(size_t parameter, const Part &part, DType dtype, const char *source);
  /// Parameters that no rank put in come from `reader`.
  Status finish(const WeightReader &reader, const std::vector<bool> &wasPut);

private:
  explicit WeightWriter(const Manifest &manifest) : manifest(&manifest) {}
  bool isSaved(const ParameterInfo &info) const;
  Status prepareAdapters(const std::string &path);
  Status commit();

  const Manifest *manifest;
  SavedWeights saved = SavedWeights::All;
  std::string path;                           ///< that was asked for
  std::vector<AdapterPair> pairs;             ///< unless everything is saved as it is
  std::map<size_t, std::vector<char>> merged; ///< adapters that are to be added, by parameter
  std::optional<SafetensorsWriter> file;
  std::vector<size_t> entries; ///< of the file: first entry of each parameter; aliases follow
  std::vector<char *> places;  ///< of each parameter; null: it isn't saved
};

} // namespace dtc::rt
