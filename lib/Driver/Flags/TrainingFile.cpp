#include "TrainingFile.h"

#include "dtc/Plan/Plan/Plan.h"

#include <algorithm>

namespace dtc::driver {

using plan::YamlError;

namespace {

class TrainingKeys {
public:
  TrainingKeys(YAML::Node &root, const std::string &file) : root(root), file(file) {}

  FlagValues take();

private:
  YAML::Node takeKey(const std::string &key);
  void takeOptimizer();
  void takePrecision();
  void takeMesh();
  void takeStrategy();
  void takeBatch();
  std::optional<int64_t> number(const std::string &key) const;
  std::optional<int64_t> dataRanks() const;
  std::optional<int64_t> planned(const std::string &key) const;
  void plan(const std::string &key, int64_t value, const YAML::Node &at);
  void add(const std::string &flag, const std::string &value, const YAML::Node &at) {
    flags.push_back({flag, value, at.Mark().line + 1});
  }
  [[noreturn]] void fail(const YAML::Node &at, const std::string &message) const {
    throw YamlError(file + ":" + std::to_string(at.Mark().line + 1) + ": " + message,
                    ErrorCategory::InputRefused);
  }

  YAML::Node &root;
  const std::string &file;
  FlagValues flags;
  std::vector<std::pair<std::string, int64_t>> settings; ///< for --plan
  YAML::Node settingsAt;
};

} // namespace

/// The value of a key, which is taken out.
YAML::Node TrainingKeys::takeKey(const std::string &key) {
  YAML::Node value = root[key];
  if (value)
    root.remove(key);
  return value;
}

/// `optimizer: adamw` stays a flag.
void TrainingKeys::takeOptimizer() {
  if (!root["optimizer"] || !root["optimizer"].IsMap())
    return;
  YAML::Node optimizer = takeKey("optimizer");
  for (auto entry : optimizer) {
    std::string key = entry.first.as<std::string>();
    std::string flag = key == "name" ? "optimizer" : key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    static const std::vector<std::string> known = {"optimizer", "lr",       "betas",       "eps",
                                                   "momentum",  "nesterov", "weight-decay"};
    if (std::find(known.begin(), known.end(), flag) == known.end())
      fail(entry.first, "unknown key in optimizer: " + key);
    std::string value;
    if (entry.second.IsSequence())
      for (auto item : entry.second)
        value += (value.empty() ? "" : ",") + item.as<std::string>();
    else
      value = entry.second.as<std::string>();
    add(flag, value, entry.first);
  }
}

/// The names of Lightning and LitGPT. Ours are left as they are, bf16-true among them.
void TrainingKeys::takePrecision() {
  YAML::Node at = root["precision"];
  if (!at || !at.IsScalar())
    return;
  const auto text = at.as<std::string>();
  if (text == "16-true")
    fail(at, "precision 16-true has no weights in fp32 and no scale of the loss; fp16 has both");
  for (auto [name, ours] : {std::pair("bf16-mixed", "bf16"), std::pair("16-mixed", "fp16"),
                            std::pair("32-true", "fp32")})
    if (text == name) {
      add("precision", ours, at);
      root.remove("precision");
      return;
    }
}

void TrainingKeys::plan(const std::string &key, int64_t value, const YAML::Node &at) {
  for (const auto &[known, other] : settings)
    if (known == key && other != value)
      fail(at,
           key + "=" + std::to_string(value) + " contradicts " + key + "=" + std::to_string(other));
  if (settings.empty())
    settingsAt = at;
  settings.emplace_back(key, value);
}

/// `[[4, 2], [fsdp, tp]]`: sizes and names of the axes, from the outermost. An axis `replicate` has
/// copies of what `fsdp` shares out.
void TrainingKeys::takeMesh() {
  YAML::Node mesh = takeKey("mesh_shape");
  if (!mesh)
    return;
  const bool isPair = mesh.IsSequence() && mesh.size() == 2 && mesh[0].IsSequence() &&
                      mesh[1].IsSequence() && mesh[0].size() == mesh[1].size();
  if (!isPair)
    fail(mesh, "mesh_shape: expected sizes and names, as [[4, 2], [fsdp, tp]]");
  int64_t dp = 1;
  std::optional<int64_t> shards;
  for (size_t i = 0; i < mesh[0].size(); ++i) {
    const std::string name = mesh[1][i].as<std::string>();
    const int64_t size = mesh[0][i].as<int64_t>(0);
    if (size < 1 || size > plan::kMostDegree || dp > plan::kMostDegree / size)
      fail(mesh[0][i], "mesh_shape: expected a number from 1 for " + name);
    if (name == "fsdp" || name == "dp" || name == "data" || name == "replicate")
      dp *= size;
    else if (name == "tp" || name == "pp" || name == "cp" || name == "ep")
      plan(name, size, mesh);
    else
      fail(mesh[1][i], "mesh_shape: unknown axis " + name +
                           ", known are fsdp, replicate, dp, data, tp, pp, cp, ep");
    if (name == "fsdp")
      shards = size;
  }
  plan("dp", dp, mesh);
  if (shards && *shards > 1 && *shards < dp)
    plan("zero_group", *shards, mesh);
}

std::optional<int64_t> TrainingKeys::planned(const std::string &key) const {
  for (const auto &[known, value] : settings)
    if (known == key)
      return value;
  return std::nullopt;
}

/// FSDP's names for ZeRO's levels.
void TrainingKeys::takeStrategy() {
  YAML::Node at = takeKey("sharding_strategy");
  if (!at || at.Scalar() == "auto")
    return;
  const bool isHybrid = at.Scalar() == "HYBRID_SHARD" || at.Scalar() == "_HYBRID_SHARD_ZERO2";
  if (isHybrid && !planned("zero_group"))
    fail(at, at.Scalar() + " needs mesh_shape with the axes replicate and fsdp");
  if (!isHybrid && planned("zero_group"))
    fail(at, at.Scalar() + " contradicts the axes replicate and fsdp of mesh_shape");
  for (auto [name, zero] :
       {std::pair("FULL_SHARD", 3), std::pair("SHARD_GRAD_OP", 2), std::pair("NO_SHARD", 0),
        std::pair("HYBRID_SHARD", 3), std::pair("_HYBRID_SHARD_ZERO2", 2)})
    if (at.Scalar() == name) {
      if (zero > 0 && !isHybrid)
        plan("zero_group", 0, at); // all data-parallel ranks
      return plan("zero", zero, at);
    }
  fail(at, "unknown sharding_strategy: " + at.Scalar() +
               ", known are FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD, NO_SHARD, auto");
}

std::optional<int64_t> TrainingKeys::number(const std::string &key) const {
  std::string dashed = key;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  for (const std::string &name : {key, dashed})
    if (YAML::Node value = std::as_const(root)[name]; value) {
      const int64_t count = value.as<int64_t>(0);
      if (count < 1 || count > plan::kMostDegree)
        fail(value, name + ": expected a number from 1 to " + std::to_string(plan::kMostDegree));
      return count;
    }
  return std::nullopt;
}

/// Of the mesh, or of a plan that says it; all devices where the mesh has no other axes.
std::optional<int64_t> TrainingKeys::dataRanks() const {
  if (auto dp = planned("dp"))
    return *dp * planned("ep").value_or(1);
  if (YAML::Node text = std::as_const(root)["plan"]; text && text.IsScalar()) {
    auto spec = plan::parseSpec(text.Scalar());
    if (spec && spec->dp)
      return *spec->dp * spec->ep.value_or(1);
  }
  return std::nullopt;
}

/// Samples of a step, of a microbatch and rank, and microbatches of a step: two give the third.
void TrainingKeys::takeBatch() {
  auto all = number("global_batch"), micro = number("micro_batch"), calls = number("accumulation");
  YAML::Node at = takeKey("accumulation");
  if (!at)
    return;
  auto ranks = dataRanks();
  if (!ranks)
    fail(at, "accumulation needs the number of data-parallel ranks: dp in plan, or mesh_shape");
  if (*calls > plan::kMostDegree / *ranks)
    fail(at, "accumulation is too large: " + std::to_string(*calls));
  const int64_t perSample = *calls * *ranks;
  if (micro && all && *micro * perSample != *all)
    fail(at, "micro_batch " + std::to_string(*micro) + " x accumulation " + std::to_string(*calls) +
                 " x " + std::to_string(*ranks) +
                 " data-parallel ranks aren't the global_batch of " + std::to_string(*all));
  if (micro && !all)
    add("global-batch", std::to_string(*micro * perSample), at);
  else if (all && !micro && *all % perSample == 0)
    add("micro-batch", std::to_string(*all / perSample), at);
  else if (all && !micro)
    fail(at, "global_batch " + std::to_string(*all) + " is no multiple of accumulation " +
                 std::to_string(*calls) + " x " + std::to_string(*ranks) + " data-parallel ranks");
  else if (!all)
    fail(at, "accumulation needs global_batch or micro_batch beside it");
}

FlagValues TrainingKeys::take() {
  if (YAML::Node model = takeKey("model"))
    add("model", model.as<std::string>(), model);
  takeOptimizer();
  takePrecision();
  takeMesh();
  takeStrategy();
  takeBatch();
  if (settings.empty())
    return std::move(flags);
  std::string spec;
  if (YAML::Node given = takeKey("plan"); given && given.Scalar() != "auto") {
    spec = given.as<std::string>();
    settingsAt = given;
  }
  for (const auto &[key, value] : settings)
    spec += (spec.empty() ? "" : ",") + key + "=" + std::to_string(value);
  add("plan", spec, settingsAt);
  return std::move(flags);
}

FlagValues takeTrainingKeys(YAML::Node &root, const std::string &file) {
  return TrainingKeys(root, file).take();
}

} // namespace dtc::driver
