#include "AdapterFiles.h"

#include "dtc-rt/Program/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

namespace dtc::rt {

namespace {

constexpr size_t kNone = -1;

/// Of the factors [copies..., rank, in] and [copies..., out, rank]; experts have several copies.
struct Sizes {
  int64_t copies = 0, rank = 0, in = 0, out = 0;
};

std::optional<Sizes> sizesOf(const Manifest &manifest, const AdapterPair &pair) {
  if (pair.base == kNone || pair.a == kNone || pair.b == kNone)
    return std::nullopt;
  Dims a = manifest.parameters[pair.a].shape, b = manifest.parameters[pair.b].shape;
  const Dims &weight = manifest.parameters[pair.base].shape;
  if (a.size() < 2 || a.size() != b.size() || a[a.size() - 2] != b.back())
    return std::nullopt;
  Sizes sizes{1, b.back(), a.back(), b[b.size() - 2]};
  for (Dims *dims : {&a, &b})
    dims->resize(dims->size() - 2);
  sizes.copies = product(a);
  Dims whole = a;
  whole.insert(whole.end(), {sizes.out, sizes.in});
  return a == b && product(whole) == product(weight) ? std::optional(sizes) : std::nullopt;
}

/// Of lora_B.weight's parameter.
const AdapterInfo &infoOf(const Manifest &manifest, const AdapterPair &pair) {
  return *manifest.parameters[pair.b].adapter;
}

std::vector<float> floatsOf(const ParameterInfo &info, const char *data, int64_t begin,
                            int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  convert(DType::F32, reinterpret_cast<char *>(result.data()), info.dtype,
          data + begin * sizeOf(info.dtype), count);
  return result;
}

/// Refuses a weight that has its inputs and outputs in between each other, or that more than
/// products read.
Status checkMergeable(const Manifest &manifest, const std::vector<AdapterPair> &pairs) {
  for (const AdapterPair &pair : pairs)
    if (!infoOf(manifest, pair).isTransposed || !isFloat(manifest.parameters[pair.base].dtype))
      return {
          ErrorCategory::Usage,
          "--save-weights merged= can't add an adapter to a weight that is looked up, too, as a "
          "tied embedding is, or whose inputs and outputs aren't two dimensions; save adapters= "
          "instead: " +
              manifest.parameters[pair.base].name};
  return Status::ok();
}

/// Refuses adapters that PEFT has no layout for.
Status checkPeft(const Manifest &manifest, const std::vector<AdapterPair> &pairs) {
  for (const AdapterPair &pair : pairs)
    if (sizesOf(manifest, pair)->copies != 1 || manifest.parameters[pair.a].shape.size() != 2)
      return {ErrorCategory::Usage, "--save-weights peft= has no place for adapters of experts: " +
                                        manifest.parameters[pair.base].name};
    else if (!infoOf(manifest, pair).isTransposed)
      return {
          ErrorCategory::Usage,
          "--save-weights peft= has no place for the adapter of a weight that is looked up, too, "
          "as a tied embedding is; leave it out by targets=, or save adapters= instead: " +
              manifest.parameters[pair.base].name};
  return Status::ok();
}

} // namespace

Result<std::vector<AdapterPair>> adapterPairs(const Manifest &manifest) {
  std::map<std::string, AdapterPair> byBase;
  for (size_t i = 0; i < manifest.parameters.size(); ++i)
    if (const auto &adapter = manifest.parameters[i].adapter) {
      auto &pair =
          byBase.try_emplace(adapter->base, AdapterPair{kNone, kNone, kNone}).first->second;
      (adapter->isUp ? pair.b : pair.a) = i;
    }
  if (byBase.empty())
    return Status(ErrorCategory::Usage, "trains no adapters to save (dtc compile --lora)");
  for (size_t i = 0; i < manifest.parameters.size(); ++i)
    if (auto found = byBase.find(manifest.parameters[i].name); found != byBase.end())
      found->second.base = i;
  std::vector<AdapterPair> pairs;
  for (const auto &[base, pair] : byBase) {
    if (!sizesOf(manifest, pair))
      return refused("has no two factors that fit the adapted weight: " + base);
    pairs.push_back(pair);
  }
  return pairs;
}

Status checkSaved(const Manifest &manifest, SavedWeights saved) {
  if (saved == SavedWeights::All)
    return Status::ok();
  Result<std::vector<AdapterPair>> pairs = adapterPairs(manifest);
  if (!pairs)
    return pairs.status();
  if (saved == SavedWeights::Merged)
    return checkMergeable(manifest, *pairs);
  return saved == SavedWeights::Peft ? checkPeft(manifest, *pairs) : Status::ok();
}

/// Row by row of the weight as it lies: `rows` of [.., columns], each a sum of `rank` rows.
void mergeAdapter(const Manifest &manifest, const AdapterPair &pair, char *weight, const char *a,
                  const char *b) {
  const Sizes sizes = *sizesOf(manifest, pair);
  const AdapterInfo &info = infoOf(manifest, pair);
  const bool transposed = *info.isTransposed;
  const DType type = manifest.parameters[pair.base].dtype;
  const int64_t rows = transposed ? sizes.in : sizes.out,
                columns = transposed ? sizes.out : sizes.in;
  std::vector<double> row(static_cast<size_t>(columns));
  for (int64_t copy = 0; copy < sizes.copies; ++copy) {
    auto down = floatsOf(manifest.parameters[pair.a], a, copy * sizes.rank * sizes.in,
                         sizes.rank * sizes.in);
    auto up = floatsOf(manifest.parameters[pair.b], b, copy * sizes.out * sizes.rank,
                       sizes.out * sizes.rank);
    auto downAt = [&](int64_t r, int64_t i) { return down[static_cast<size_t>(r * sizes.in + i)]; };
    auto upAt = [&](int64_t o, int64_t r) { return up[static_cast<size_t>(o * sizes.rank + r)]; };
    for (int64_t i = 0; i < rows; ++i) {
      char *target = weight + (copy * rows + i) * columns * sizeOf(type);
      convert(DType::F64, reinterpret_cast<char *>(row.data()), type, target, columns);
      for (int64_t r = 0; r < sizes.rank; ++r)
        for (int64_t j = 0; j < columns; ++j)
          row[static_cast<size_t>(j)] +=
              info.scale *
              (transposed ? double(downAt(r, i)) * upAt(j, r) : double(upAt(i, r)) * downAt(r, j));
      convert(type, target, DType::F64, reinterpret_cast<char *>(row.data()), columns);
    }
  }
}

//===-- PEFT --------------------------------------------------------------===//

/// The module that has the weight.
static std::string moduleOf(const std::string &weight) {
  constexpr std::string_view kWeight = ".weight";
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

Status PeftFolder::create() const {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return failed("cannot make the folder (" + error.message() + ")").in(path);
  return Status::ok();
}

/// PEFT scales by lora_alpha / r. Weights that are [in, out] are Conv1D's.
Status PeftFolder::writeConfig(const Manifest &manifest,
                               const std::vector<AdapterPair> &pairs) const {
  nlohmann::json config = {{"peft_type", "LORA"},       {"bias", "none"},
                           {"lora_dropout", 0.0},       {"inference_mode", true},
                           {"init_lora_weights", true}, {"use_rslora", false},
                           {"task_type", nullptr},      {"base_model_name_or_path", nullptr}};
  const int64_t rank = sizesOf(manifest, pairs.front())->rank;
  config["r"] = rank;
  config["lora_alpha"] = infoOf(manifest, pairs.front()).scale * double(rank);
  config["fan_in_fan_out"] = std::all_of(pairs.begin(), pairs.end(), [&](const AdapterPair &pair) {
    return infoOf(manifest, pair).isTransposed.value_or(false);
  });
  nlohmann::json &targets = config["target_modules"] = nlohmann::json::array();
  for (const AdapterPair &pair : pairs)
    targets.push_back(moduleOf(manifest.parameters[pair.base].name));
  const std::string text = config.dump(2) + "\n";
  Result<OutputFile> file = OutputFile::create(path + "/adapter_config.json", text.size());
  if (!file)
    return file.status();
  std::memcpy(file->data(), text.data(), text.size());
  return file->commit();
}

} // namespace dtc::rt
