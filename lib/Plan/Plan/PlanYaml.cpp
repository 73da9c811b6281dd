// Plans as YAML, to be read and edited by people (written by PlanWriter.cpp):
//
//   plan: {dp: 2, tp: 2, ...}
//   mesh: [{name: dp, degree: dp, size: 2}, ...]
//   stages: [{ops: [0, 77], devices: [0, 1, 2, 3]}]
//   arguments:
//     - {name: wte.weight, kind: parameter, dims: [[tp], []]}
//   ops:
//     - {op: dtc.contract, at: node_12, factors: [[dp], [], [tp]], pending: [[tp, 0]]}
//
//   padded: [{name: h.0.mlp.fc.weight, dim: 1}, ...]     where files have less
//
// A file with the part `plan` alone is a SPEC: the rest is planned anew.
//
// Where pipeline ranks differ, `plan` lists them in groups and the shardings of the second
// and later ones follow:
//
//   plan: {..., stage_groups: [{pp: 1, dp: 2, tp: 4, ...}, {pp: 1, dp: 8, tp: 1, ...}]}
//   other_groups: [{mesh: ..., arguments: ..., storage: ..., ops: ...}]
//
// Trailing factors and dimensions without axes are written out: their number is
// checked against the problem.
#include "PlanWords.h"
#include "SettingValues.h"

#include "dtc/Plan/Plan/PlanFile.h"
#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Plan/Plan/YamlReader.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisId;
using sharding::AxisList;
using sharding::OpSharding;
using sharding::TensorSharding;

namespace {

/// What is longer than files have it, as the plan was made for it.
Dimensions readPadded(YamlMap &root) {
  Dimensions padded;
  if (root.has("padded"))
    for (YamlMap &map : root.items("padded")) {
      padded.emplace_back(map.get<std::string>("name"), map.number<int64_t>("dim", 0));
      map.finish();
    }
  return padded;
}

int64_t readPaddedSamples(YamlMap &root) {
  return root.number<int64_t>("padded_samples", 0, /*otherwise=*/0);
}

/// A word's value; `otherwise` where the key is left out.
template <typename Word>
Word readWord(YamlMap &map, const std::string &key, const Word &otherwise) {
  auto text = map.get<std::string>(key, textOf(otherwise));
  std::optional<Word> value = fromText<Word>(text);
  if (!value)
    map.fail(map.at(key), "unknown " + key + ": " + text);
  return *value;
}

/// Of one mesh.
class ModelShardingReader {
public:
  ModelShardingReader(YamlMap &root, const Problem &problem) : root(root), problem(problem) {}
  ModelSharding run() {
    mesh();
    arguments();
    storage();
    ops();
    return std::move(made);
  }

private:
  AxisId axis(const YAML::Node &node);
  AxisList axes(const YAML::Node &node);
  std::vector<AxisList> lists(const YAML::Node &node);
  TensorSharding readSharding(YamlMap &map, size_t rank);
  void mesh();
  void arguments();
  void storage();
  void ops();
  OpSharding op(YamlMap &map, const Op &op);
  std::string origin(bool isKnown) const;

  YamlMap &root;
  const Problem &problem;
  ModelSharding made;
};

class PlanReader {
public:
  PlanReader(const YAML::Node &node, const std::string &file, const Problem &problem)
      : root(node, file, "the plan"), problem(problem) {}
  Plan run();

private:
  void stages();

  YamlMap root;
  const Problem &problem;
  Plan plan;
};

} // namespace

AxisId ModelShardingReader::axis(const YAML::Node &node) {
  if (!node.IsScalar())
    root.fail(node, "expected the name of a mesh axis");
  AxisId id = made.mesh.find(node.Scalar());
  if (id < 0)
    root.fail(node, "axis is not in the mesh: " + node.Scalar());
  return id;
}

AxisList ModelShardingReader::axes(const YAML::Node &node) {
  if (!node.IsSequence())
    root.fail(node, "expected a list of mesh axes");
  AxisList result;
  for (const YAML::Node &item : node)
    result.push_back(axis(item));
  return result;
}

std::vector<AxisList> ModelShardingReader::lists(const YAML::Node &node) {
  if (!node.IsSequence())
    root.fail(node, "expected a list of lists of mesh axes");
  std::vector<AxisList> result;
  for (const YAML::Node &item : node)
    result.push_back(axes(item));
  return result;
}

TensorSharding ModelShardingReader::readSharding(YamlMap &map, size_t rank) {
  TensorSharding result;
  result.dims = lists(map.at("dims"));
  if (result.dims.size() != rank)
    map.fail(map.at("dims"), "the tensor has " + std::to_string(rank) + " dimensions, not " +
                                 std::to_string(result.dims.size()));
  for (auto [kind, name] : partialNames)
    if (map.has(name))
      for (AxisId pending : axes(map.at(name)))
        result.partial.push_back({pending, kind});
  std::sort(result.partial.begin(), result.partial.end());
  return result;
}

//===-- settings ----------------------------------------------------------===//

template <typename T> static T readValue(YamlMap &map, const Setting &setting, const T &otherwise) {
  return readWord(map, setting.name, otherwise);
}

template <std::integral T>
static T readValue(YamlMap &map, const Setting &setting, const T &otherwise) {
  std::optional<T> fallback;
  if (!setting.isRequired)
    fallback = otherwise;
  T value = map.number<T>(setting.name, static_cast<T>(setting.inFile.least), fallback);
  if (value > setting.inFile.most)
    map.fail(map.at(setting.name),
             std::string(setting.name) + " is out of range: " + std::to_string(value));
  return value;
}

static bool readValue(YamlMap &map, const Setting &setting, bool otherwise) {
  auto text = map.get<std::string>(setting.name, textOf(otherwise));
  if (text != "on" && text != "off" && text != "true" && text != "false")
    map.fail(map.at(setting.name), std::string(setting.name) + " must be on or off: " + text);
  return text == "on" || text == "true";
}

static StageGroups readValue(YamlMap &map, const Setting &setting, StageGroups groups);

static StageGroup readGroup(YamlMap &map) {
  StageGroup group;
  for (const Setting *setting : groupSettings())
    std::visit(
        [&]<typename T, typename Pin>(Member<T, Pin> member) {
          if constexpr (std::is_same_v<T, int64_t>)
            group.*member.group = map.count(setting->name, setting->inFile.least);
          else
            group.*member.group = readValue(map, *setting, group.*member.group);
        },
        setting->member);
  map.finish();
  return group;
}

static StageGroups readValue(YamlMap &map, const Setting &setting, StageGroups groups) {
  if (map.has(setting.name))
    for (YamlMap &item : map.items(setting.name))
      groups.push_back(readGroup(item));
  return groups;
}

static Degrees readDegrees(YamlMap map) {
  Degrees degrees;
  for (const Setting &setting : settings())
    std::visit(
        [&](auto member) { degrees.*member.plan = readValue(map, setting, degrees.*member.plan); },
        setting.member);
  // What is read of the rest already needs the batch.
  if (!agreesWithFirstGroup(degrees))
    map.fail(map.at("stage_groups"),
             "the plan's dp, tp, sp and micro_batch aren't those of its first stage group");
  map.finish();
  return degrees;
}

//===-- shardings -----------------------------------------------------------===//

void ModelShardingReader::mesh() {
  for (YamlMap &map : root.items("mesh")) {
    auto axisName = map.get<std::string>("name");
    made.mesh.axes.push_back({axisName, map.get<std::string>("degree", axisName),
                              map.number<int64_t>("size", 1)});
    map.finish();
  }
}

void PlanReader::stages() {
  for (YamlMap &map : root.items("stages")) {
    auto range = map.get<std::vector<int64_t>>("ops");
    if (range.size() != 2)
      map.fail(map.at("ops"), "ops must be the first and the last");
    plan.stages.push_back({range[0], range[1], map.get<std::vector<int64_t>>("devices")});
    map.finish();
  }
}

void ModelShardingReader::arguments() {
  for (YamlMap &map : root.items("arguments")) {
    auto argumentName = map.get<std::string>("name"), kind = map.get<std::string>("kind");
    ValueId found = -1;
    for (ValueId value = 0; value < problem.arguments && found < 0; ++value)
      if (problem.values[value].name == argumentName && !made.arguments.contains(value) &&
          name(problem.values[value].kind) == kind)
        found = value;
    if (found < 0) {
      bool isOfModel = kind == name(ValueKind::Parameter) || kind == name(ValueKind::Buffer) ||
                       kind == name(ValueKind::Input);
      map.fail(map.at("name"), "the model has no " + kind + " (or it is given twice" +
                                   (isOfModel ? "" : ", or --loss or the batch is another") +
                                   "): " + argumentName);
    }
    made.arguments[found] = readSharding(map, problem.values[found].shape.size());
    map.finish();
  }
}

void ModelShardingReader::storage() {
  for (YamlMap &map : root.items("storage")) {
    ParameterStorage storage;
    storage.parameter = map.get<std::string>("parameter");
    auto value = std::find_if(problem.values.begin(), problem.values.end(), [&](const Value &v) {
      return v.kind == ValueKind::Parameter && v.name == storage.parameter;
    });
    if (value == problem.values.end())
      map.fail(map.at("parameter"), "the model has no parameter: " + storage.parameter);
    storage.use = readSharding(map, value->shape.size());
    const std::pair<const char *, AxisList *> sharded[] = {
        {"storage_axes", &storage.storageAxes},
        {"gradient_axes", &storage.gradientAxes},
        {"state_axes", &storage.stateAxes}};
    for (auto [key, list] : sharded)
      if (map.has(key))
        *list = axes(map.at(key));
    map.finish();
    made.storage.push_back(std::move(storage));
  }
}

/// Of which model a plan with other ops is. It is of this one where it has all parameters, which
/// have been read before the ops, and its ops are known.
std::string ModelShardingReader::origin(bool isKnown) const {
  for (ValueId value = 0; value < problem.arguments; ++value)
    isKnown &= problem.values[value].kind != ValueKind::Parameter || made.arguments.contains(value);
  if (!isKnown)
    return "the plan is of another model";
  return "the plan is of this model with other flags, such as --loss, --precision or the batch";
}

OpSharding ModelShardingReader::op(YamlMap &map, const Op &expected) {
  auto opName = map.get<std::string>("op"), location = map.get<std::string>("at", "");
  if (opName != expected.name || location != expected.location) {
    bool isKnown = std::any_of(problem.ops.begin(), problem.ops.end(), [&](const Op &other) {
      return other.name == opName && other.location == location;
    });
    map.fail(map.at("op"), "the model has " + expected.name + " (" + expected.location +
                               ") here, " + origin(isKnown) + ": " + opName);
  }
  OpSharding result;
  result.factors = lists(map.at("factors"));
  if (result.factors.size() != expected.rule->factors.size())
    map.fail(map.at("factors"),
             "the op has " + std::to_string(expected.rule->factors.size()) + " factors, not " +
                 std::to_string(result.factors.size()));
  if (map.has("pending"))
    for (const YAML::Node &item : map.at("pending")) {
      if (!item.IsSequence() || item.size() != 2)
        map.fail(item, "expected [axis, linear set]");
      int set = -1;
      if (!YAML::convert<int>::decode(item[1], set))
        map.fail(item, "expected [axis, linear set]");
      result.pending.push_back({axis(item[0]), set});
    }
  map.finish();
  return result;
}

void ModelShardingReader::ops() {
  std::vector<YamlMap> list = root.items("ops");
  if (list.size() != problem.ops.size())
    root.fail(root.at("ops"), "the model has " + std::to_string(problem.ops.size()) + " ops, " +
                                  origin(true) + ": " + std::to_string(list.size()));
  for (size_t i = 0; i < list.size(); ++i)
    made.ops.push_back(op(list[i], problem.ops[i]));
}

Plan PlanReader::run() {
  plan.degrees = readDegrees(root.map("plan"));
  const Problem split = withSplitSequence(problem, plan.degrees.cp);
  static_cast<ModelSharding &>(plan) = ModelShardingReader(root, split).run();
  if (!hasDefaultPlacement(plan.degrees))
    setStrides(plan.mesh, stridesOf(plan.degrees));
  stages();
  if (root.has("recompute"))
    for (YamlMap &map : root.items("recompute")) {
      plan.recompute.push_back(
          {map.number<int64_t>("block", 0), readWord(map, "kind", Recompute::None)});
      map.finish();
    }
  if (root.has("other_groups"))
    for (YamlMap &map : root.items("other_groups")) {
      plan.others.push_back(ModelShardingReader(map, split).run());
      map.finish();
    }
  readPadded(root); // Training/PadDimension.h acts on it
  readPaddedSamples(root);
  root.finish();
  return std::move(plan);
}

Result<Degrees> degreesFromYaml(const std::string &text, const std::string &file) {
  return readYaml<Degrees>(text, file, [&](const YAML::Node &node) {
    return readDegrees(YamlMap(node, file, "the plan").map("plan"));
  });
}

Result<bool> hasDegreesAlone(const std::string &text, const std::string &file) {
  return readYaml<bool>(text, file, [&](const YAML::Node &node) {
    return node.IsMap() && node.size() == 1 && node["plan"].IsDefined();
  });
}

Result<Dimensions> paddedDimensions(const std::string &text, const std::string &file) {
  return readYaml<Dimensions>(text, file, [&](const YAML::Node &node) {
    YamlMap root(node, file, "the plan");
    return readPadded(root);
  });
}

Result<int64_t> paddedSamples(const std::string &text, const std::string &file) {
  return readYaml<int64_t>(text, file, [&](const YAML::Node &node) {
    YamlMap root(node, file, "the plan");
    return readPaddedSamples(root);
  });
}

Error otherBatch(const std::string &text, const std::string &file, int64_t was, int64_t asked) {
  return readYaml<bool>(text, file,
                        [&](const YAML::Node &node) -> bool {
                          YamlMap root(node, file, "the plan");
                          root.fail(root.at("plan"), "made for a global batch of " +
                                                         std::to_string(was) + ", not " +
                                                         std::to_string(asked) +
                                                         "; its part plan: alone suits others");
                        })
      .error();
}

Result<Plan> planFromYaml(const std::string &text, const std::string &file,
                          const Problem &problem) {
  return readYaml<Plan>(text, file, [&](const YAML::Node &node) {
    return PlanReader(node, file, problem).run();
  });
}

} // namespace dtc::plan
