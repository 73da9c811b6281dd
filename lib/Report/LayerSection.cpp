// The model's parameters and one of its layers, op by op, with their shardings.
#include "Figures.h"
#include "Layers.h"
#include "Sections.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <cmath>

namespace dtc::report {

using plan::Op;
using plan::OpKind;
using plan::ProblemFacts;
using plan::Value;
using sharding::AxisList;
using sharding::Mesh;
using sharding::TensorSharding;

static constexpr size_t kMostRows = 300, kMostOps = 60;

/// "dp,tp": all axes of a degree are the degree.
static std::string axesText(const AxisList &axes, const Mesh &mesh) {
  std::string text;
  for (size_t i = 0; i < axes.size();) {
    const sharding::MeshAxis &axis = mesh.axes[axes[i]];
    AxisList all = mesh.ofDegree(axis.degree);
    bool isAll =
        i + all.size() <= axes.size() && std::equal(all.begin(), all.end(), axes.begin() + i);
    text += (text.empty() ? "" : ",") + (isAll ? axis.degree : axis.name);
    i += isAll ? all.size() : 1;
  }
  return text;
}

/// "64 x 128/8 tp": a shape with the ways in which its dimensions are split.
static void writeShape(Html &html, const std::vector<int64_t> &shape,
                       const TensorSharding &sharding, const Mesh &mesh) {
  html.open("span", {{"class", "shape"}});
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const AxisList &axes = sharding.dims[dim];
    if (dim)
      html.text(" \u00D7 ");
    if (axes.empty() || mesh.size(axes) == 1) {
      html.element("span", {{"class", "dim"}}, std::to_string(shape[dim]));
      continue;
    }
    html.open("span", {{"class", "dim split"}}).text(std::to_string(shape[dim]));
    html.element("b", "\u00F7" + std::to_string(mesh.size(axes)) + "\u00A0" + axesText(axes, mesh))
        .close();
  }
  if (shape.empty())
    html.text("scalar");
  AxisList sums;
  for (const sharding::Partial &partial : sharding.partial)
    if (mesh.axes[partial.axis].size > 1)
      sums.push_back(partial.axis);
  if (!sums.empty())
    html.element("b", {{"class", "pending"}}, " sum over " + axesText(sums, mesh) + " pending");
  html.close();
}

static double storedBytes(const Value &value, const TensorSharding &sharding, const Mesh &mesh,
                          const AxisList &storage) {
  double ways = double(mesh.size(storage));
  for (const AxisList &dim : sharding.dims)
    ways *= double(mesh.size(dim));
  return std::ceil(double(value.bytes()) / ways);
}

static void writeRow(Html &html, const Page &page, const plan::Plan &plan,
                     const ParameterRow &row) {
  const Value &value = page.facts.problem.values[row.value];
  const TensorSharding &sharding = plan.arguments.at(row.value);
  html.open("tr").open("th", {{"scope", "row"}}).name(row.name);
  if (!row.isFamily)
    html.text(" and the like");
  if (!value.trainable)
    html.element("span", {{"class", "note"}},
                 value.kind == plan::ValueKind::Buffer ? " buffer" : " not trained");
  html.close();
  html.open("td");
  writeShape(html, value.shape, sharding, plan.mesh);
  html.close();
  html.open("td", {{"class", "number"}});
  double stored = storedBytes(value, sharding, plan.mesh, row.storage);
  html.text(formatBytes(stored)).close().open("td");
  smallBar(html, stored, double(value.bytes()), "k0");
  html.close();
  html.element("td", {{"class", "number"}},
               row.count > 1 ? "\u00D7" + std::to_string(row.count) : "");
  html.close();
}

static std::string aboutParameters(const Page &page) {
  std::string text =
      "Every parameter with its shape as the program sees it. \u00F7 marks a dimension that "
      "is cut into parts, over which axis of the mesh: of 256\u00F78\u00A0tp each "
      "tensor-parallel rank has 32. What isn't cut is held whole by every rank of "
      "its stage.";
  if (page.degrees().zero >= 3)
    text += std::string(" Between uses, ZeRO-3 stores ") +
            (page.degrees().zeroBlocks > 0 ? "some of them" : "each of them") +
            " in parts over the data-parallel ranks; that is what a device is shown to store.";
  return text;
}

namespace {

/// How many rows there are in the table, and how many were left out.
struct Rows {
  size_t shown = 0, left = 0;
};

} // namespace

/// What ranks with one mesh hold.
static void writePart(Html &html, const Page &page, const ProblemFacts &facts,
                      const MeshPart &part, Rows &rows) {
  for (const LayerGroup &group : foldLayers(page.facts.problem, facts, *part.plan)) {
    size_t shown = std::min(group.rows.size(), kMostRows - std::min(rows.shown, kMostRows));
    rows.left += group.rows.size() - shown;
    if (shown == 0)
      continue;
    html.open("tbody").open("tr");
    html.element("th", {{"colspan", "5"}, {"scope", "colgroup"}, {"class", "group"}},
                 group.title + (part.ranks.empty() ? "" : ", " + part.ranks));
    html.close();
    for (size_t i = 0; i < shown; ++i)
      writeRow(html, page, *part.plan, group.rows[i]);
    rows.shown += shown;
    html.close();
  }
}

void writeParameters(Html &html, const Page &page) {
  ProblemFacts facts(page.facts.problem);
  openSection(html, "model", "The model and how it is split", aboutParameters(page));
  openTable(html, "Parameters by layer",
            {{"Parameter"},
             {"Shape and how it is split"},
             {"A device stores", true},
             {"Share of the whole"},
             {"Times", true}});
  html.close();
  Rows rows;
  for (const MeshPart &part : meshParts(page.facts))
    writePart(html, page, facts, part, rows);
  html.close().close();
  if (rows.left > 0)
    html.element("p", {{"class", "note"}},
                 std::to_string(rows.left) + " more kinds of parameters aren't listed; --save-plan "
                                        "writes all of them.");
  html.close();
}

//===----------------------------------------------------------------------===//
// One layer, op by op
//===----------------------------------------------------------------------===//

static const char *kindText(OpKind kind) {
  switch (kind) {
  case OpKind::Contraction:
    return "matrix product";
  case OpKind::Attention:
    return "attention";
  case OpKind::Normalization:
    return "normalization";
  case OpKind::Loss:
    return "loss";
  case OpKind::Lookup:
    return "table lookup";
  case OpKind::Reduction:
    return "reduction";
  case OpKind::Join:
    return "join";
  case OpKind::Elementwise:
    return "elementwise";
  case OpKind::View:
  case OpKind::Reindex:
    return "rearrangement";
  case OpKind::GradientSum:
  case OpKind::Other:
    return "other";
  }
  return "other";
}

namespace {

/// What a layer's ops make, and what is communicated between them.
class LayerWriter {
public:
  LayerWriter(Html &html, const plan::ModelSharding &sharding, const plan::Problem &problem,
              const ProblemFacts &facts)
      : html(html), sharding(sharding), problem(problem), facts(facts), mesh(sharding.mesh) {}
  void write(plan::OpId first, plan::OpId last);

private:
  TensorSharding shardingOf(plan::ValueId value) const;
  void before(plan::OpId id);
  void inside(plan::OpId id);
  void exchange(const char *kind, const AxisList &axes, const std::string &rest);
  void row(plan::OpId id);

  Html &html;
  const plan::ModelSharding &sharding;
  const plan::Problem &problem;
  const ProblemFacts &facts;
  const Mesh &mesh;
  /// Values in shardings that an earlier op asked for: they are made once.
  std::vector<std::pair<plan::ValueId, TensorSharding>> made;
};

} // namespace

TensorSharding LayerWriter::shardingOf(plan::ValueId value) const {
  plan::OpId producer = facts.producer[value];
  if (producer < 0) {
    auto known = sharding.arguments.find(value);
    return known != sharding.arguments.end()
               ? known->second
               : TensorSharding::replicated(problem.values[value].shape.size());
  }
  const Op &op = problem.ops[producer];
  size_t index = std::find(op.results.begin(), op.results.end(), value) - op.results.begin();
  return sharding::resultSharding(op.rule, sharding.ops[producer], index);
}

/// Collectives that bring an op's operands into the shardings that it needs.
void LayerWriter::before(plan::OpId id) {
  const Op &op = problem.ops[id];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value &value = problem.values[op.operands[i]];
    TensorSharding from = shardingOf(op.operands[i]);
    std::pair wanted(op.operands[i], sharding::operandSharding(op.rule, sharding.ops[id], i));
    if (std::find(made.begin(), made.end(), wanted) != made.end())
      continue;
    auto steps = sharding::reshard(from, wanted.second, mesh);
    made.push_back(std::move(wanted));
    if (!steps)
      continue;
    for (const sharding::ReshardStep &step : *steps) {
      if (step.kind != sharding::StepKind::Slice && mesh.size(step.axes) > 1)
        exchange(collectiveName(step.kind), step.axes,
                 " of " + formatBytes(double(sharding::stepBytes(
                              step, from, value.shape, plan::byteSize(value.type), mesh))));
      from = step.after;
    }
  }
}

/// Where a split factor has rounds of communication within the op.
void LayerWriter::inside(plan::OpId id) {
  const Op &op = problem.ops[id];
  for (const plan::Round &round : op.rounds) {
    const AxisList &axes = sharding.ops[id].factors[round.factor];
    if (mesh.size(axes) > 1)
      exchange("all_reduce", axes, " inside");
  }
}

void LayerWriter::exchange(const char *kind, const AxisList &axes, const std::string &rest) {
  html.open("tr", {{"class", "exchange"}}).element("td", "");
  html.open("td", {{"colspan", "3"}})
      .element("b", kind)
      .text(" over " + axesText(axes, mesh) + rest);
  html.close().close();
}

void LayerWriter::row(plan::OpId id) {
  const Op &op = problem.ops[id];
  html.open("tr");
  html.element("td", kindText(op.kind));
  html.open("td");
  if (!op.location.empty())
    html.name(op.location);
  html.close().open("td");
  writeShape(html, problem.values[op.results.front()].shape, shardingOf(op.results.front()), mesh);
  html.close();
  const Value &result = problem.values[op.results.front()];
  html.element("td", {{"class", "number"}},
               formatBytes(storedBytes(result, shardingOf(op.results.front()), mesh, {})));
  html.close();
}

void LayerWriter::write(plan::OpId first, plan::OpId last) {
  openTable(html, "Ops of one layer",
            {{"Op"},
             {"Node of the model file"},
             {"Result and how it is split"},
             {"Its part on a device", true}});
  size_t shown = 0, left = 0;
  for (plan::OpId id = first; id <= last; ++id) {
    const Op &op = problem.ops[id];
    if (facts.isStatic[id] || op.results.empty())
      continue;
    if (shown == kMostOps) {
      ++left;
      continue;
    }
    before(id);
    inside(id);
    if (op.kind != OpKind::View && op.kind != OpKind::Reindex) {
      row(id);
      ++shown;
    }
  }
  html.close().close().close();
  if (left > 0)
    html.element("p", {{"class", "note"}}, std::to_string(left) + " more ops aren't listed.");
}

/// Of Degrees::groups, that whose stage has a forward op.
static size_t groupAt(const plan::Plan &plan, plan::OpId op) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    if (op >= plan.stages[stage].firstOp && op <= plan.stages[stage].lastOp)
      return groupOf(plan.degrees, placementOf(plan.degrees).rank(int64_t(stage)));
  return 0;
}

void writeLayer(Html &html, const Page &page) {
  // As its planner saw it.
  plan::Problem problem = plan::withSplitSequence(page.facts.problem, page.degrees().cp);
  ProblemFacts facts(problem);
  std::vector<plan::Block> blocks = plan::findBlocks(problem, facts);
  if (blocks.empty())
    return;
  const plan::Block &block = blocks[blocks.size() / 2];
  size_t group = groupAt(page.plan(), block.first);
  const plan::ModelSharding &sharding = plan::shardingOf(page.plan(), group);
  const std::string where =
      page.degrees().groups.empty() ? "" : " on " + groupRanksText(page.degrees(), group);
  if (sharding.ops.size() != problem.ops.size())
    return;
  openSection(
      html, "layer", "Inside a layer",
      "What layer " + std::to_string(blocks.size() / 2) + " of " + std::to_string(blocks.size()) +
          " computes" + where + " in the forward pass, in order, for one microbatch of all "
          "data-parallel ranks, and where its devices exchange data (coloured lines): before such "
          "a line every device works on its own.");
  LayerWriter(html, sharding, problem, facts).write(block.first, block.last);
  html.close();
}

} // namespace dtc::report
