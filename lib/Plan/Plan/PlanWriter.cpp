// Writes plans as YAML; see PlanYaml.cpp.
#include "PlanWords.h"
#include "SettingValues.h"

#include "dtc/Plan/Plan/PlanFile.h"
#include "dtc/Plan/Plan/Problem.h"

#include <yaml-cpp/yaml.h>

namespace dtc::plan {

using sharding::AxisId;
using sharding::AxisList;
using sharding::OpSharding;
using sharding::TensorSharding;

namespace {

class PlanWriter {
public:
  PlanWriter(const Plan &plan, const Problem &problem)
      : plan(plan), problem(problem), current(&plan) {}
  std::string run();

private:
  template <typename T> void field(const char *key, const T &value) {
    out << YAML::Key << key << YAML::Value << value;
  }
  void key(const char *name) { out << YAML::Key << name << YAML::Value; }
  void axes(const AxisList &list);
  void lists(const std::vector<AxisList> &lists);
  void writeSharding(const TensorSharding &sharding);
  void value(int number) { out << number; }
  void value(int64_t number) { out << number; }
  void value(const StageGroups &groups);
  /// Flags and words.
  template <typename T> void value(const T &word) { out << textOf(word); }
  void degrees();
  void mesh();
  void stages();
  void arguments();
  void storage();
  void recompute();
  void ops();
  void others();

  const Plan &plan;
  const Problem &problem;
  const ModelSharding *current; ///< what is written
  YAML::Emitter out;
};

} // namespace

void PlanWriter::axes(const AxisList &list) {
  out << YAML::Flow << YAML::BeginSeq;
  for (AxisId axis : list)
    out << current->mesh.axes[axis].name;
  out << YAML::EndSeq;
}

void PlanWriter::lists(const std::vector<AxisList> &lists) {
  out << YAML::Flow << YAML::BeginSeq;
  for (const AxisList &list : lists)
    axes(list);
  out << YAML::EndSeq;
}

void PlanWriter::writeSharding(const TensorSharding &sharding) {
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

void PlanWriter::value(const StageGroups &groups) {
  out << YAML::BeginSeq;
  for (const StageGroup &group : groups) {
    out << YAML::Flow << YAML::BeginMap;
    for (const Setting *setting : groupSettings()) {
      key(setting->name);
      std::visit([&](auto member) { value(group.*member.group); }, setting->member);
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void PlanWriter::degrees() {
  key("plan");
  out << YAML::BeginMap;
  for (const Setting &setting : settings()) {
    if (isLeftOut(setting, plan.degrees) ||
        (isBlockCount(setting) && hasDefault(setting, plan.degrees)))
      continue;
    key(setting.name);
    std::visit([&](auto member) { value(plan.degrees.*member.plan); }, setting.member);
  }
  out << YAML::EndMap;
}

void PlanWriter::mesh() {
  key("mesh");
  out << YAML::BeginSeq;
  for (const sharding::MeshAxis &axis : current->mesh.axes) {
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
  for (const auto &[value, sharding] : current->arguments) {
    out << YAML::Flow << YAML::BeginMap;
    field("name", problem.values[value].name);
    field("kind", name(problem.values[value].kind));
    writeSharding(sharding);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

/// Only what differs from storing a parameter as it is used.
void PlanWriter::storage() {
  key("storage");
  out << YAML::BeginSeq;
  for (const ParameterStorage &storage : current->storage) {
    out << YAML::Flow << YAML::BeginMap;
    field("parameter", storage.parameter);
    writeSharding(storage.use);
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
  for (size_t i = 0; i < current->ops.size(); ++i) {
    out << YAML::Flow << YAML::BeginMap;
    field("op", problem.ops[i].name);
    if (!problem.ops[i].location.empty())
      field("at", problem.ops[i].location);
    key("factors");
    lists(current->ops[i].factors);
    if (!current->ops[i].pending.empty()) {
      key("pending");
      out << YAML::Flow << YAML::BeginSeq;
      for (const OpSharding::Pending &pending : current->ops[i].pending)
        out << YAML::Flow << YAML::BeginSeq << current->mesh.axes[pending.axis].name
            << pending.linearSet << YAML::EndSeq;
      out << YAML::EndSeq;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void PlanWriter::others() {
  if (plan.others.empty())
    return;
  key("other_groups");
  out << YAML::BeginSeq;
  for (const ModelSharding &other : plan.others) {
    current = &other;
    out << YAML::BeginMap;
    mesh();
    arguments();
    storage();
    ops();
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
  others();
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::string paddedYaml(const Dimensions &padded, int64_t samples) {
  const std::string ofSamples =
      samples > 0 ? "padded_samples: " + std::to_string(samples) + "\n" : "";
  if (padded.empty())
    return ofSamples;
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "padded" << YAML::Value << YAML::BeginSeq;
  for (const auto &[name, dim] : padded)
    out << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value << name << YAML::Key
        << "dim" << YAML::Value << dim << YAML::EndMap;
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n" + ofSamples;
}

std::string toYaml(const Plan &plan, const Problem &problem) {
  return PlanWriter(plan, problem).run();
}

} // namespace dtc::plan
