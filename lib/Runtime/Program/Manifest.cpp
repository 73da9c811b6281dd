#include "dtc-rt/Program/Manifest.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Program/PartRuns.h"

#include "dtc-io/Json.h"
#include "dtc-io/JsonValue.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace dtc::rt {
namespace {

using nlohmann::json;

/// Thrown and caught within this file: what is wrong with the manifest.
struct Wrong {
  std::string message;
};

constexpr int64_t kMostRanks = 1 << 20;

const json &at(const json &object, const char *key) {
  auto found = object.find(key);
  if (found == object.end())
    throw Wrong{std::string("lacks the key: ") + key};
  return *found;
}

template <typename T> T get(const json &object, const char *key) {
  try {
    return io::jsonValue<T>(at(object, key));
  } catch (const json::exception &) {
    throw Wrong{std::string("has a wrong type at the key: ") + key};
  }
}

bool isAbsent(const json &object, const char *key) {
  auto found = object.find(key);
  return found == object.end() || found->is_null();
}

template <typename T> T getOr(const json &object, const char *key, T other) {
  return isAbsent(object, key) ? other : get<T>(object, key);
}

template <typename T> std::optional<T> getOptional(const json &object, const char *key) {
  if (isAbsent(object, key))
    return std::nullopt;
  return get<T>(object, key);
}

int64_t getPositive(const json &object, const char *key, int64_t most) {
  int64_t value = get<int64_t>(object, key);
  if (value < 1 || value > most)
    throw Wrong{std::string(key) + " is out of range: " + std::to_string(value)};
  return value;
}

const json &getArray(const json &object, const char *key) {
  const json &value = at(object, key);
  if (!value.is_array())
    throw Wrong{std::string("has a wrong type at the key: ") + key};
  return value;
}

DType getDType(const json &object, const char *key) {
  std::string name = get<std::string>(object, key);
  std::optional<DType> dtype = parseDType(name);
  if (!dtype || *dtype > DType::Bool)
    throw Wrong{"has an unknown element type: " + name};
  return *dtype;
}

Dims getShape(const json &object, const char *key) {
  Dims shape = get<Dims>(object, key);
  if (!(CheckedSize::product(shape) * 8))
    throw Wrong{"has an impossible shape: " + shapeText(shape)};
  return shape;
}

TensorInfo parseTensor(const json &object) {
  TensorInfo info;
  info.name = get<std::string>(object, "name");
  info.dtype = getDType(object, "dtype");
  info.shape = getShape(object, "shape");
  info.limit = getOptional<int64_t>(object, "limit");
  if (isAbsent(object, "batch_dim"))
    return info;
  if (object["batch_dim"] == "none")
    info.batchDim = std::nullopt;
  else
    info.batchDim = get<int64_t>(object, "batch_dim");
  int64_t rank = static_cast<int64_t>(info.shape.size());
  if (info.batchDim ? *info.batchDim < 0 || *info.batchDim >= rank : rank < 1 || info.shape[0] != 1)
    throw Wrong{"has a bad batch_dim: " + info.name};
  return info;
}

AdapterInfo parseAdapter(const json &object) {
  AdapterInfo info;
  info.base = get<std::string>(object, "base");
  const auto part = get<std::string>(object, "part");
  if (part != "A" && part != "B")
    throw Wrong{"has an unknown part of an adapter: " + part};
  info.isUp = part == "B";
  info.scale = get<double>(object, "scale");
  if (isAbsent(object, "layout"))
    return info;
  const auto layout = get<std::string>(object, "layout");
  if (layout != "out_in" && layout != "in_out")
    throw Wrong{"has an unknown layout of a weight: " + layout};
  info.isTransposed = layout == "in_out";
  return info;
}

ParameterInfo parseParameter(const json &object) {
  ParameterInfo info;
  info.name = get<std::string>(object, "name");
  info.aliases = getOr<std::vector<std::string>>(object, "aliases", {});
  info.dtype = getDType(object, "dtype");
  info.shape = getShape(object, "shape");
  info.view = isAbsent(object, "view") ? info.shape : getShape(object, "view");
  info.filled =
      isAbsent(object, "filled") ? filledOf(info.shape, info.view) : getShape(object, "filled");
  info.trainable = get<bool>(object, "trainable");
  if (!isAbsent(object, "adapter"))
    info.adapter = parseAdapter(object["adapter"]);
  info.storage = isAbsent(object, "storage_dtype") ? info.dtype : getDType(object, "storage_dtype");
  if (!isAbsent(object, "init"))
    info.init =
        Distribution{get<double>(object["init"], "mean"), get<double>(object["init"], "sd")};
  if (!mayFill(info.shape, info.filled, info.view))
    throw Wrong{info.name + ": view is of another size: " + shapeText(info.view)};
  if (!isConvertible(info.dtype, info.storage))
    throw Wrong{info.name + ": cannot be stored as: " + nameOf(info.storage)};
  return info;
}

WeightLocation parseLocation(const std::string &name, const json &object, const Manifest &result) {
  const ParameterInfo *parameter = result.findParameter(name);
  if (!parameter)
    throw Wrong{"has the weight of an unknown parameter: " + name};
  WeightLocation location;
  location.file = getOptional<size_t>(object, "file");
  location.offset = get<uint64_t>(object, "offset");
  location.size = get<uint64_t>(object, "size");
  location.dtype = getDType(object, "dtype");
  if (get<Dims>(object, "shape") != parameter->shape)
    throw Wrong{name + ": the weight's shape is not the parameter's"};
  CheckedSize size = CheckedSize::product(parameter->shape) * sizeOf(location.dtype);
  if (!size || static_cast<uint64_t>(*size) != location.size)
    throw Wrong{name + ": the weight has a wrong size: " + std::to_string(location.size)};
  if (location.file && *location.file >= result.weights.files.size())
    throw Wrong{name + ": the weight is in a file that is not listed"};
  if (!isConvertible(location.dtype, parameter->storage))
    throw Wrong{name + ": cannot be stored as: " + nameOf(parameter->storage)};
  return location;
}

void parseWeights(const json &object, Manifest &result) {
  for (const json &file : getArray(object, "files"))
    result.weights.files.push_back({get<std::string>(file, "path"), get<uint64_t>(file, "size"),
                                    get<std::string>(file, "head_sha256")});
  const json &tensors = at(object, "tensors");
  if (!tensors.is_object())
    throw Wrong{"has a wrong type at the key: tensors"};
  for (auto &[name, tensor] : tensors.items())
    result.weights.tensors[name] = parseLocation(name, tensor, result);
}

LearningRateInfo parseLearningRate(const json &object) {
  LearningRateInfo info;
  info.lr = get<double>(object, "lr");
  info.minLr = getOr(object, "min_lr", 0.0);
  info.warmupSteps = getOr<int64_t>(object, "warmup_steps", 0);
  info.totalSteps = getOr<int64_t>(object, "total_steps", 0);
  std::string schedule = getOr<std::string>(object, "schedule", "constant");
  using Schedule = LearningRateInfo::Schedule;
  if (schedule == "linear")
    info.schedule = Schedule::Linear;
  else if (schedule == "cosine")
    info.schedule = Schedule::Cosine;
  else if (schedule != "constant")
    throw Wrong{"has an unknown learning rate schedule: " + schedule};
  bool decays = info.schedule != Schedule::Constant;
  if (info.warmupSteps < 0 || (decays && info.totalSteps < 1) || !std::isfinite(info.lr))
    throw Wrong{"has an impossible learning rate schedule"};
  return info;
}

void parseRoles(const json &root, Manifest &result) {
  std::vector<bool> placed(static_cast<size_t>(result.worldSize), false);
  int64_t count = 0;
  for (const json &item : getArray(root, "roles")) {
    RoleInfo &role = result.roles.emplace_back(
        RoleInfo{get<std::string>(item, "program"), get<std::vector<int>>(item, "ranks")});
    for (int rank : role.ranks) {
      if (rank < 0 || rank >= result.worldSize || placed[rank])
        throw Wrong{"gives a role a rank that does not exist or has one: " + std::to_string(rank)};
      placed[rank] = true;
      ++count;
    }
  }
  if (count != result.worldSize)
    throw Wrong{"does not give every rank a role"};
}

void parseTensors(const json &root, Manifest &result) {
  std::set<std::string> names;
  for (const json &item : getArray(root, "parameters")) {
    result.parameters.push_back(parseParameter(item));
    result.parameterIndex[result.parameters.back().name] = result.parameters.size() - 1;
    const ParameterInfo &info = result.parameters.back();
    bool fresh = names.insert(info.name).second;
    for (const std::string &alias : info.aliases)
      fresh = names.insert(alias).second && fresh;
    if (!fresh)
      throw Wrong{"has a parameter or alias twice: " + info.name};
  }
  for (auto [key, list] : {std::pair("inputs", &result.inputs), {"outputs", &result.outputs}}) {
    names.clear();
    for (const json &item : getArray(root, key)) {
      list->push_back(parseTensor(item));
      if (!names.insert(list->back().name).second)
        throw Wrong{std::string("has a tensor twice in ") + key + ": " + list->back().name};
    }
  }
}

void parseMembers(const json &root, Manifest &result) {
  const json &members = at(root, "members");
  if (!members.is_object())
    throw Wrong{"has a wrong type at the key: members"};
  for (auto &[name, member] : members.items())
    result.members[name] = {get<uint64_t>(member, "size"), get<std::string>(member, "sha256")};
}

LossKind parseLoss(const std::string &text) {
  if (text.starts_with("output:"))
    return LossKind::Output;
  for (auto [name, kind] : {std::pair("none", LossKind::None),
                            {"cross_entropy", LossKind::CrossEntropy},
                            {"mse", LossKind::MeanSquaredError}})
    if (text == name)
      return kind;
  throw Wrong{"has an unknown loss: " + text};
}

Manifest parseRoot(const json &root) {
  if (!root.is_object())
    throw Wrong{"is not an object"};
  Manifest result;
  if (int64_t format = get<int64_t>(root, "format"); format != kFormatVersion)
    throw Wrong{"is of format " + std::to_string(format) + ", this program reads format " +
                std::to_string(kFormatVersion)};
  result.target = get<std::string>(root, "target");
  result.worldSize = getPositive(root, "world_size", kMostRanks);
  result.threadsPerRank = getPositive(root, "threads_per_rank", kMostThreads);
  if (!isAbsent(root, "processor")) {
    result.arch = getOr<std::string>(root["processor"], "arch", "");
    result.processorFeatures = getOr<std::vector<std::string>>(root["processor"], "features", {});
  }
  parseRoles(root, result);
  result.code = getOr<std::vector<std::string>>(root, "code", {});
  result.globalBatch = getPositive(root, "global_batch", int64_t(1) << 40);
  result.sequence = getOptional<int64_t>(root, "sequence");
  result.vocabulary = getOptional<int64_t>(root, "vocabulary");
  const json traits = getOr<json>(root, "traits", json::object());
  for (const auto &entry : traits.items())
    result.traits[entry.key()] = get<std::string>(traits, entry.key().c_str());
  result.loss = parseLoss(getOr<std::string>(root, "loss", "none"));
  result.ignoreIndex = getOr<int64_t>(root, "ignore_index", -100);
  if (!isAbsent(root, "padded_samples"))
    result.paddedSamples = getPositive(root, "padded_samples", int64_t(1) << 40);
  if (result.paddedSamples > 0 && result.loss != LossKind::CrossEntropy)
    throw Wrong{"has padded_samples, but no targets that could be ignored"};
  parseTensors(root, result);
  parseWeights(at(root, "weights"), result);
  result.data = getOr<std::string>(root, "data", "");
  if (!isAbsent(root, "learning_rate"))
    result.learningRate = parseLearningRate(root["learning_rate"]);
  if (!isAbsent(root, "predicted"))
    result.predictedStepTime = getOptional<double>(root["predicted"], "step_time_s");
  parseMembers(root, result);
  return result;
}

} // namespace

Dims TensorInfo::fileShape(int64_t samples) const {
  if (shape.empty())
    return {};
  Dims result(shape.begin() + 1, shape.end());
  if (batchDim)
    result.insert(result.begin() + *batchDim, samples);
  return result;
}

Result<Manifest> Manifest::parse(std::span<const char> text) {
  std::string why;
  std::optional<json> root = io::parseJson<json>({text.data(), text.size()}, why);
  if (!root)
    return refused(why);
  try {
    return parseRoot(*root);
  } catch (const Wrong &wrong) {
    return refused(wrong.message);
  } catch (const json::exception &error) {
    return refused("has a wrong type");
  }
}

const ParameterInfo *Manifest::findParameter(const std::string &name) const {
  auto found = parameterIndex.find(name);
  return found == parameterIndex.end() ? nullptr : &parameters[found->second];
}

std::pair<size_t, size_t> Manifest::roleOf(int rank) const {
  for (size_t role = 0; role < roles.size(); ++role) {
    const std::vector<int> &ranks = roles[role].ranks;
    if (auto found = std::find(ranks.begin(), ranks.end(), rank); found != ranks.end())
      return {role, static_cast<size_t>(found - ranks.begin())};
  }
  return {roles.size(), 0}; // not reached: every rank has a role
}

} // namespace dtc::rt
