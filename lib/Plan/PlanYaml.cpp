// Plans as YAML, to be read and edited by people:
//
//   plan: {dp: 2, tp: 2, ...}
//   mesh: [{name: dp, degree: dp, size: 2}, ...]
//   stages: [{ops: [0, 77], devices: [0, 1, 2, 3]}]
//   arguments:
//     - {name: wte.weight, kind: parameter, dims: [[tp], []]}
//   ops:
//     - {op: dtc.contract, at: node_12, factors: [[dp], [], [tp]], pending: [[tp, 0]]}
//
// Trailing factors and dimensions without axes are written out: their number is
// checked against the problem.
#include "YamlReader.h"

#include "dtc/Plan/Problem.h"

namespace dtc::plan {

using sharding::AxisId;
using sharding::AxisList;
using sharding::Mesh;
using sharding::OpSharding;
using sharding::TensorSharding;

static const std::pair<sharding::ReduceKind, const char *> partialNames[] = {
    {sharding::ReduceKind::Sum, "sum"},
    {sharding::ReduceKind::Max, "max"},
    {sharding::ReduceKind::Min, "min"}};

//===-- writing -----------------------------------------------------------===//

namespace {

class PlanWriter {
public:
  PlanWriter(const Plan &plan, const Problem &problem) : plan(plan), problem(problem) {}
  std::string run();

private:
  template <typename T> void field(const char *key, const T &value) {
    out << YAML::Key << key << YAML::Value << value;
  }
  void key(const char *name) { out << YAML::Key << name << YAML::Value; }
  void axes(const AxisList &list);
  void lists(const std::vector<AxisList> &lists);
  void layout(const TensorSharding &sharding);
  void degrees();
  void mesh();
  void stages();
  void arguments();
  void storage();
  void recompute();
  void ops();

  const Plan &plan;
  const Problem &problem;
  YAML::Emitter out;
};

} // namespace

void PlanWriter::axes(const AxisList &list) {
  out << YAML::Flow << YAML::BeginSeq;
  for (AxisId axis : list)
    out << plan.mesh.axes[axis].name;
  out << YAML::EndSeq;
}

void PlanWriter::lists(const std::vector<AxisList> &lists) {
  out << YAML::Flow << YAML::BeginSeq;
  for (const AxisList &list : lists)
    axes(list);
  out << YAML::EndSeq;
}

void PlanWriter::layout(const TensorSharding &sharding) {
  key("dims");
  lists(sharding.dims);
  for (auto [kind, name] : partialNames) {
    AxisList pending;
    for (const sharding::Partial &partial : sharding.partial)
      if (partial.kind == kind)
        pending.push_back(partial.axis);
    if (pending.empty())
      continue;
    key(name);
    axes(pending);
  }
}

void PlanWriter::degrees() {
  const Degrees &d = plan.degrees;
  key("plan");
  out << YAML::BeginMap;
  field("dp", d.dp);
  field("tp", d.tp);
  field("pp", d.pp);
  field("cp", d.cp);
  field("ep", d.ep);
  field("sp", d.sp ? "on" : "off");
  field("zero", d.zero);
  field("zero_group", d.zeroGroup);
  field("schedule", name(d.schedule));
  field("chunks", d.chunks);
  field("micro_batch", d.microBatch);
  field("num_microbatches", d.numMicrobatches);
  field("recompute", name(d.recompute));
  if (d.recomputeBlocks > 0)
    field("recompute_blocks", d.recomputeBlocks);
  field("offload", name(d.offload));
  out << YAML::EndMap;
}

void PlanWriter::mesh() {
  key("mesh");
  out << YAML::BeginSeq;
  for (const sharding::MeshAxis &axis : plan.mesh.axes) {
    out << YAML::Flow << YAML::BeginMap;
    field("name", axis.name);
    field("degree", axis.degree);
    field("size", axis.size);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void PlanWriter::stages() {
  key("stages");
  out << YAML::BeginSeq;
  for (const Stage &stage : plan.stages) {
    out << YAML::Flow << YAML::BeginMap;
    field("ops", std::vector<int64_t>{stage.firstOp, stage.lastOp});
    field("devices", stage.devices);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void PlanWriter::arguments() {
  key("arguments");
  out << YAML::BeginSeq;
  for (const auto &[value, sharding] : plan.arguments) {
    out << YAML::Flow << YAML::BeginMap;
    field("name", problem.values[value].name);
    field("kind", name(problem.values[value].kind));
    layout(sharding);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

/// Only what differs from storing a parameter as it is used.
void PlanWriter::storage() {
  key("storage");
  out << YAML::BeginSeq;
  for (const ParameterStorage &storage : plan.storage) {
    out << YAML::Flow << YAML::BeginMap;
    field("parameter", storage.parameter);
    layout(storage.use);
    const std::pair<const char *, const AxisList *> sharded[] = {
        {"storage_axes", &storage.storageAxes},
        {"gradient_axes", &storage.gradientAxes},
        {"state_axes", &storage.stateAxes}};
    for (auto [name, list] : sharded)
      if (!list->empty()) {
        key(name);
        axes(*list);
      }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void PlanWriter::recompute() {
  if (plan.recompute.empty())
    return;
  key("recompute");
  out << YAML::BeginSeq;
  for (const BlockRecompute &block : plan.recompute) {
    out << YAML::Flow << YAML::BeginMap;
    field("block", block.block);
    field("kind", name(block.kind));
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void PlanWriter::ops() {
  key("ops");
  out << YAML::BeginSeq;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    out << YAML::Flow << YAML::BeginMap;
    field("op", problem.ops[i].name);
    if (!problem.ops[i].location.empty())
      field("at", problem.ops[i].location);
    key("factors");
    lists(plan.ops[i].factors);
    if (!plan.ops[i].pending.empty()) {
      key("pending");
      out << YAML::Flow << YAML::BeginSeq;
      for (const OpSharding::Pending &pending : plan.ops[i].pending)
        out << YAML::Flow << YAML::BeginSeq << plan.mesh.axes[pending.axis].name
            << pending.linearSet << YAML::EndSeq;
      out << YAML::EndSeq;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

std::string PlanWriter::run() {
  out << YAML::BeginMap;
  degrees();
  mesh();
  stages();
  arguments();
  storage();
  recompute();
  ops();
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::string toYaml(const Plan &plan, const Problem &problem) {
  return PlanWriter(plan, problem).run();
}

//===-- reading -----------------------------------------------------------===//

namespace {

template <typename Enum>
Enum word(YamlMap &map, const std::string &key, std::optional<Enum> (*parse)(const std::string &),
          Enum otherwise) {
  auto text = map.get<std::string>(key, name(otherwise));
  std::optional<Enum> value = parse(text);
  if (!value)
    map.fail(map.at(key), "unknown " + key + ": " + text);
  return *value;
}

class PlanReader {
public:
  PlanReader(const YAML::Node &node, const std::string &file, const Problem &problem)
      : root(node, file, "the plan"), file(file), problem(problem) {}
  Plan run();

private:
  /// The items of a list, each a map.
  std::vector<YamlMap> items(const std::string &key) {
    std::vector<YamlMap> result;
    YAML::Node list = root.at(key);
    if (!list.IsSequence())
      root.fail(list, key + " must be a list");
    for (const YAML::Node &item : list)
      result.emplace_back(item, file, key);
    return result;
  }
  AxisId axis(const YAML::Node &node);
  AxisList axes(const YAML::Node &node);
  std::vector<AxisList> lists(const YAML::Node &node);
  TensorSharding layout(YamlMap &map, size_t rank);
  void mesh();
  void stages();
  void arguments();
  void storage();
  void ops();
  OpSharding op(YamlMap &map, const Op &op);

  YamlMap root;
  const std::string &file;
  const Problem &problem;
  Plan plan;
};

} // namespace

AxisId PlanReader::axis(const YAML::Node &node) {
  if (!node.IsScalar())
    root.fail(node, "expected the name of a mesh axis");
  AxisId id = plan.mesh.find(node.Scalar());
  if (id < 0)
    root.fail(node, "axis is not in the mesh: " + node.Scalar());
  return id;
}

AxisList PlanReader::axes(const YAML::Node &node) {
  if (!node.IsSequence())
    root.fail(node, "expected a list of mesh axes");
  AxisList result;
  for (const YAML::Node &item : node)
    result.push_back(axis(item));
  return result;
}

std::vector<AxisList> PlanReader::lists(const YAML::Node &node) {
  if (!node.IsSequence())
    root.fail(node, "expected a list of lists of mesh axes");
  std::vector<AxisList> result;
  for (const YAML::Node &item : node)
    result.push_back(axes(item));
  return result;
}

TensorSharding PlanReader::layout(YamlMap &map, size_t rank) {
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

static Degrees readDegrees(YamlMap map) {
  Degrees d;
  auto count = [&](const char *key, std::optional<int64_t> otherwise = {}) {
    auto value = map.number<int64_t>(key, 1, otherwise);
    if (value > kMostDegree)
      map.fail(map.at(key), std::string(key) + " is out of range: " + std::to_string(value));
    return value;
  };
  d.dp = count("dp");
  d.tp = count("tp");
  d.pp = count("pp", 1);
  d.cp = count("cp", 1);
  d.ep = count("ep", 1);
  auto sp = map.get<std::string>("sp", "off");
  if (sp != "on" && sp != "off" && sp != "true" && sp != "false")
    map.fail(map.at("sp"), "sp must be on or off: " + sp);
  d.sp = sp == "on" || sp == "true";
  d.zero = map.number<int>("zero", 0, 0);
  d.zeroGroup = map.number<int64_t>("zero_group", 0, 0);
  d.schedule = word(map, "schedule", scheduleFromName, ScheduleKind::OneFOneB);
  d.chunks = count("chunks", 1);
  d.microBatch = count("micro_batch", 1);
  d.numMicrobatches = count("num_microbatches", 1);
  d.recompute = word(map, "recompute", recomputeFromName, Recompute::None);
  d.recomputeBlocks = map.number<int64_t>("recompute_blocks", 0, 0);
  d.offload = word(map, "offload", offloadFromName, Offload::None);
  map.finish();
  return d;
}

void PlanReader::mesh() {
  for (YamlMap &map : items("mesh")) {
    auto axisName = map.get<std::string>("name");
    plan.mesh.axes.push_back({axisName, map.get<std::string>("degree", axisName),
                              map.number<int64_t>("size", 1)});
    map.finish();
  }
}

void PlanReader::stages() {
  for (YamlMap &map : items("stages")) {
    auto range = map.get<std::vector<int64_t>>("ops");
    if (range.size() != 2)
      map.fail(map.at("ops"), "ops must be the first and the last");
    plan.stages.push_back({range[0], range[1], map.get<std::vector<int64_t>>("devices")});
    map.finish();
  }
}

void PlanReader::arguments() {
  for (YamlMap &map : items("arguments")) {
    auto argumentName = map.get<std::string>("name"), kind = map.get<std::string>("kind");
    ValueId found = -1;
    for (ValueId value = 0; value < problem.arguments && found < 0; ++value)
      if (problem.values[value].name == argumentName && !plan.arguments.contains(value) &&
          name(problem.values[value].kind) == kind)
        found = value;
    if (found < 0)
      map.fail(map.at("name"), "the model has no " + kind + " (or it is given twice): " +
                                   argumentName);
    plan.arguments[found] = layout(map, problem.values[found].shape.size());
    map.finish();
  }
}

void PlanReader::storage() {
  for (YamlMap &map : items("storage")) {
    ParameterStorage storage;
    storage.parameter = map.get<std::string>("parameter");
    auto value = std::find_if(problem.values.begin(), problem.values.end(), [&](const Value &v) {
      return v.kind == ValueKind::Parameter && v.name == storage.parameter;
    });
    if (value == problem.values.end())
      map.fail(map.at("parameter"), "the model has no parameter: " + storage.parameter);
    storage.use = layout(map, value->shape.size());
    const std::pair<const char *, AxisList *> sharded[] = {
        {"storage_axes", &storage.storageAxes},
        {"gradient_axes", &storage.gradientAxes},
        {"state_axes", &storage.stateAxes}};
    for (auto [key, list] : sharded)
      if (map.has(key))
        *list = axes(map.at(key));
    map.finish();
    plan.storage.push_back(std::move(storage));
  }
}

OpSharding PlanReader::op(YamlMap &map, const Op &expected) {
  auto opName = map.get<std::string>("op"), location = map.get<std::string>("at", "");
  if (opName != expected.name || location != expected.location)
    map.fail(map.at("op"), "the model has " + expected.name + " (" + expected.location +
                               ") here, the plan is of another model: " + opName);
  OpSharding result;
  result.factors = lists(map.at("factors"));
  if (result.factors.size() != expected.rule.factors.size())
    map.fail(map.at("factors"),
             "the op has " + std::to_string(expected.rule.factors.size()) + " factors, not " +
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

void PlanReader::ops() {
  std::vector<YamlMap> list = items("ops");
  if (list.size() != problem.ops.size())
    root.fail(root.at("ops"), "the model has " + std::to_string(problem.ops.size()) +
                                  " ops, the plan is of another model: " +
                                  std::to_string(list.size()));
  for (size_t i = 0; i < list.size(); ++i)
    plan.ops.push_back(op(list[i], problem.ops[i]));
}

Plan PlanReader::run() {
  plan.degrees = readDegrees(root.map("plan"));
  mesh();
  stages();
  arguments();
  storage();
  if (root.has("recompute"))
    for (YamlMap &map : items("recompute")) {
      plan.recompute.push_back({map.number<int64_t>("block", 0),
                                word(map, "kind", recomputeFromName, Recompute::None)});
      map.finish();
    }
  ops();
  root.finish();
  return std::move(plan);
}

Result<Degrees> degreesFromYaml(const std::string &text, const std::string &file) {
  return readYaml<Degrees>(text, file, [&](const YAML::Node &node) {
    return readDegrees(YamlMap(node, file, "the plan").map("plan"));
  });
}

Result<Plan> planFromYaml(const std::string &text, const std::string &file,
                          const Problem &problem) {
  return readYaml<Plan>(text, file, [&](const YAML::Node &node) {
    return PlanReader(node, file, problem).run();
  });
}

} // namespace dtc::plan
