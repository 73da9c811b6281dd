#include "Layers.h"

#include "dtc/Report/Words.h"

#include <map>

namespace dtc::report {

using plan::Block;
using plan::OpId;
using plan::Plan;
using plan::Problem;
using plan::ProblemFacts;
using plan::Value;
using plan::ValueId;

/// Where a parameter belongs: before the layers, to one of them, after them, or
/// (read by several) to the whole model.
enum Place : int64_t { kBefore = -1, kAfter = -2, kShared = -3 };

static int64_t placeOf(ValueId value, const ProblemFacts &facts, const std::vector<Block> &blocks) {
  std::optional<int64_t> place;
  for (OpId reader : facts.consumers[value]) {
    if (reader > facts.lastForward)
      continue;
    int64_t here = kBefore;
    for (size_t block = 0; block < blocks.size(); ++block) {
      if (reader >= blocks[block].first && reader <= blocks[block].last) {
        here = int64_t(block);
        break;
      }
      if (reader > blocks[block].last)
        here = block + 1 == blocks.size() ? int64_t(kAfter) : int64_t(kBefore);
    }
    if (place && *place != here)
      return kShared;
    place = here;
  }
  return place.value_or(kShared);
}

static std::vector<ParameterRow> rowsOf(const std::vector<ValueId> &values, const Problem &problem,
                                        const Plan &plan) {
  std::vector<ParameterRow> rows;
  for (ValueId value : values) {
    ParameterRow row{problem.values[value].name, true, value, 1, {}};
    for (const plan::ParameterStorage &storage : plan.storage)
      if (storage.parameter == row.name)
        row.storage = storage.storageAxes;
    rows.push_back(std::move(row));
  }
  return rows;
}

static bool isAlike(const ParameterRow &a, const ParameterRow &b, const Problem &problem,
                    const Plan &plan) {
  const Value &left = problem.values[a.value], &right = problem.values[b.value];
  return left.shape == right.shape && left.type == right.type && left.kind == right.kind &&
         left.trainable == right.trainable && a.storage == b.storage &&
         plan.arguments.at(a.value) == plan.arguments.at(b.value);
}

/// Adds the rows of a layer to a group when they are alike.
static bool fold(LayerGroup &group, const std::vector<ParameterRow> &rows, const Problem &problem,
                 const Plan &plan) {
  if (group.rows.size() != rows.size())
    return false;
  for (size_t i = 0; i < rows.size(); ++i)
    if (!isAlike(group.rows[i], rows[i], problem, plan))
      return false;
  for (size_t i = 0; i < rows.size(); ++i) {
    ParameterRow &row = group.rows[i];
    row.isFamily &= familyOf(problem.values[row.value].name) == familyOf(rows[i].name);
    row.name = row.isFamily ? familyOf(rows[i].name) : problem.values[row.value].name;
    ++row.count;
  }
  return true;
}

std::vector<LayerGroup> foldLayers(const Problem &problem, const ProblemFacts &facts,
                                   const Plan &plan) {
  std::vector<Block> blocks = plan::findBlocks(problem, facts);
  std::map<int64_t, std::vector<ValueId>> places;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    plan::ValueKind kind = problem.values[value].kind;
    if ((kind == plan::ValueKind::Parameter || kind == plan::ValueKind::Buffer) &&
        plan.arguments.count(value))
      places[placeOf(value, facts, blocks)].push_back(value);
  }
  std::vector<LayerGroup> groups;
  auto addRest = [&](int64_t place, const char *title) {
    if (places.count(place))
      groups.push_back({-1, -1, title, rowsOf(places[place], problem, plan)});
  };
  addRest(kBefore, blocks.empty() ? "The model" : "Before the layers");
  size_t firstLayers = groups.size();
  for (size_t block = 0; block < blocks.size(); ++block) {
    std::vector<ParameterRow> rows = rowsOf(places[int64_t(block)], problem, plan);
    auto layer = int64_t(block);
    if (groups.size() > firstLayers && fold(groups.back(), rows, problem, plan))
      groups.back().last = layer;
    else
      groups.push_back({layer, layer, "", std::move(rows)});
  }
  for (LayerGroup &group : groups)
    if (group.first >= 0)
      group.title = group.first == group.last
                        ? "Layer " + std::to_string(group.first)
                        : "Layers " + std::to_string(group.first) + "\u2013" +
                              std::to_string(group.last) + ", " +
                              std::to_string(group.last - group.first + 1) + " alike";
  addRest(kAfter, "After the layers");
  addRest(kShared, "Read in several places");
  return groups;
}

} // namespace dtc::report
