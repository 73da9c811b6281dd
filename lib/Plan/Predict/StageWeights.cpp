// The parameters of a plan by how they are stored (StageCosts.h).
#include "dtc/Plan/Plan/Storage.h"
#include "dtc/Plan/Predict/StageCosts.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisList;

std::vector<int64_t> WeightClass::sizes(const StageRun &run) const {
  std::vector<int64_t> result;
  for (const Tables::Part &part : tables->parts)
    if (anyWithin(part.units, run.begin, run.end))
      result.push_back(part.bytes);
  return result;
}

void WeightClass::Tables::finish() {
  for (StageTable *table :
       {&parameters, &gradients, &states, &kept, &update, &elements, &count, &forward, &backward})
    table->finish();
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part &a, const Part &b) { return a.units < b.units; });
}

/// Whether they are split alike, now and over more axes.
static bool sameSplit(const WeightClass &a, const WeightClass &b) {
  return a.storage == b.storage && a.gradient == b.gradient && a.state == b.state &&
         a.split == b.split && a.stored == b.stored;
}

static bool sameKey(const WeightClass &a, const WeightClass &b) {
  return sameSplit(a, b) && a.pending == b.pending && a.trained == b.trained;
}

static const ParameterStorage *storageOf(const Plan &plan, const std::string &name) {
  for (const ParameterStorage &storage : plan.storage)
    if (storage.parameter == name)
      return &storage;
  return nullptr;
}

namespace {

/// Sorts the parameters of a plan into classes.
class WeightFinder {
public:
  WeightFinder(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
               const UnitCosts &unitCosts, const Software &software)
      : problem(problem), facts(facts), plan(plan), unitCosts(unitCosts), software(software) {}

  Weights run(const RankExecution &execution);

private:
  WeightClass keyOf(ValueId value, const AxisList &pending);
  WeightClass &classOf(WeightClass key);
  void add(ValueId value, WeightClass &to);
  void noteCalls(const UnitCosts::Readers &readers, const WeightClass &of);
  void addCalls();
  void addData(ValueId value);
  void addData(std::vector<int> units, Weights::Data::Lifetime lifetime, int64_t bytes);

  const Problem &problem;
  const ProblemFacts &facts;
  const Plan &plan;
  const UnitCosts &unitCosts;
  const Software &software;
  size_t next = 0; ///< of plan.storage: listed in the order of the arguments, as a rule
  /// The units that have a part of a block's common calls. All copies of a repeated block have
  /// such.
  struct CallUnits {
    std::vector<int> forward, backward, scatters;
  };
  struct BlockOfCalls {
    WeightClass::Calls *calls;
    int block, copies;
    CallUnits units;
  };
  std::vector<BlockOfCalls> blocksOfCalls;
  Weights result;
};

} // namespace

WeightClass WeightFinder::keyOf(ValueId value, const AxisList &pending) {
  const Value &argument = problem.values[value];
  WeightClass key;
  if (!argument.trainable)
    return key;
  bool inOrder = next < plan.storage.size() && plan.storage[next].parameter == argument.name;
  const ParameterStorage *storage =
      inOrder ? &plan.storage[next] : storageOf(plan, argument.name);
  next += inOrder;
  key.stored = storage != nullptr;
  if (storage) {
    key.storage = storage->storageAxes;
    key.gradient = storage->gradientAxes;
    key.state = storage->stateAxes;
    if (plan.degrees.zeroBlocks > 0 && !key.state.empty())
      key.level = zeroLevel(*storage) == plan.degrees.zero ? WeightClass::Level::Higher
                                                           : WeightClass::Level::Lower;
  }
  key.trained = facts.gradientResult[value] >= 0;
  key.pending = pending;
  for (sharding::AxisId axis : plan.mesh.ofDegree("ep"))
    if (plan.arguments.at(value).splits(axis))
      key.split.push_back(axis);
  return key;
}

WeightClass &WeightFinder::classOf(WeightClass key) {
  for (WeightClass &known : result.classes)
    if (sameKey(known, key))
      return known;
  key.tables = std::make_shared<WeightClass::Tables>(unitCosts.units());
  auto alike = std::find_if(result.classes.begin(), result.classes.end(),
                            [&](const WeightClass &known) { return sameSplit(known, key); });
  key.calls = alike == result.classes.end()
                  ? std::make_shared<WeightClass::Calls>(unitCosts.units())
                  : alike->calls;
  return result.classes.emplace_back(std::move(key));
}

static void addTo(WeightClass::Tables &tables, const std::vector<int> &readers, int shift,
                  const ParameterBytes &bytes) {
  tables.parameters.addToStagesWith(readers, bytes.parameter, shift);
  tables.gradients.addToStagesWith(readers, bytes.gradient, shift);
  tables.states.addToStagesWith(readers, bytes.states, shift);
  tables.kept.addToStagesWith(readers, bytes.kept, shift);
  tables.update.addToStagesWith(readers, bytes.update, shift);
  tables.elements.addToStagesWith(readers, bytes.elements, shift);
  tables.count.addToStagesWith(readers, 1, shift);
}

/// The units that read a copy of an argument; what nothing reads stays with the first stage.
static std::vector<int> unitsOf(const UnitCosts::Readers &readers, int shift) {
  std::vector<int> units = readers.units.empty() ? std::vector<int>{0} : readers.units;
  for (int &unit : units)
    unit += shift;
  return units;
}

static void append(std::vector<int> &to, const std::vector<int> &units) {
  to.insert(to.end(), units.begin(), units.end());
}

void WeightFinder::noteCalls(const UnitCosts::Readers &readers, const WeightClass &of) {
  auto block = std::find_if(blocksOfCalls.begin(), blocksOfCalls.end(), [&](const auto &known) {
    return known.calls == of.calls.get() && known.block == readers.block &&
           known.copies == readers.copies;
  });
  if (block == blocksOfCalls.end())
    block = blocksOfCalls.insert(block, {of.calls.get(), readers.block, readers.copies, {}});
  append(block->units.forward, readers.forward);
  append(block->units.backward, readers.backward);
  if (of.trained)
    append(block->units.scatters, readers.units);
}

void WeightFinder::addCalls() {
  for (BlockOfCalls &block : blocksOfCalls)
    for (auto [units, table] : {std::pair(&block.units.forward, &block.calls->forward),
                                {&block.units.backward, &block.calls->backward},
                                {&block.units.scatters, &block.calls->scatters}}) {
      keepDistinct(*units);
      for (int copy = 0; copy < block.copies; ++copy)
        table->addToStagesWith(*units, 1, copy * unitCosts.folded().count);
    }
  for (const WeightClass &weights : result.classes)
    if (&weights == &firstOfCalls(result.classes, weights))
      for (StageTable WeightClass::Calls::*table :
           {&WeightClass::Calls::forward, &WeightClass::Calls::backward,
            &WeightClass::Calls::scatters})
        ((*weights.calls).*table).finish();
}

void WeightFinder::add(ValueId value, WeightClass &to) {
  ParameterBytes bytes =
      parameterBytes(problem, value, to.trained, plan.arguments.at(value), plan.mesh, software);
  const UnitCosts::Readers &readers = unitCosts.readers(value);
  const std::vector<int> first = unitsOf(readers, 0);
  bool isShared = to.trained && first.size() > 1;
  noteCalls(readers, to);
  for (int copy = 0; copy < readers.copies; ++copy) {
    int shift = copy * unitCosts.folded().count;
    addTo(*to.tables, first, shift, bytes);
    to.tables->forward.addToStagesWith(readers.forward, bytes.parameter, shift);
    to.tables->backward.addToStagesWith(readers.backward, bytes.parameter, shift);
    if (software.cachingAllocator || !software.updatesOnHost)
      to.tables->parts.push_back({unitsOf(readers, shift), bytes.parameter, value});
    if (isShared)
      result.shared.push_back(
          {unitsOf(readers, shift), size_t(&to - result.classes.data()), bytes});
  }
}

void WeightFinder::addData(ValueId value) {
  const Value &argument = problem.values[value];
  const UnitCosts::Readers &readers = unitCosts.readers(value);
  int64_t bytes = placedBytes(localBytes(argument, plan.arguments.at(value), plan.mesh));
  bool isData = argument.kind == ValueKind::Input || argument.kind == ValueKind::Target;
  Weights::Data::Lifetime lifetime = isData ? Weights::Data::Lifetime::Microbatch
                                     : argument.kind == ValueKind::Buffer
                                         ? Weights::Data::Lifetime::Buffer
                                         : Weights::Data::Lifetime::Step;
  for (int copy = 0; copy < readers.copies; ++copy)
    addData(unitsOf(readers, copy * unitCosts.folded().count), lifetime, bytes);
}

void WeightFinder::addData(std::vector<int> units, Weights::Data::Lifetime lifetime,
                           int64_t bytes) {
  auto known = std::find_if(result.data.begin(), result.data.end(), [&](const auto &each) {
    return each.lifetime == lifetime && each.units == units;
  });
  if (known == result.data.end())
    known = result.data.insert(known, {std::move(units), lifetime, 0});
  known->bytes += bytes;
}

Weights WeightFinder::run(const RankExecution &execution) {
  std::vector<AxisList> pending(problem.arguments);
  for (const PendingGradient &gradient : execution.pendingGradients)
    pending[gradient.parameter] = gradient.axes;
  for (ValueId value = 0; value < problem.arguments; ++value)
    if (problem.values[value].kind == ValueKind::Parameter)
      add(value, classOf(keyOf(value, pending[value])));
    else if (problem.values[value].kind != ValueKind::Accumulator)
      addData(value);
  if (execution.outputBytes > 0)
    addData({unitCosts.units() - 1}, Weights::Data::Lifetime::Microbatch, execution.outputBytes);
  for (WeightClass &weights : result.classes)
    weights.tables->finish();
  addCalls();
  return std::move(result);
}

Weights findWeights(const Problem &problem, const ProblemFacts &facts,
                    const Plan &plan, const RankExecution &execution, const UnitCosts &unitCosts,
                    const Software &software) {
  return WeightFinder(problem, facts, plan, unitCosts, software).run(execution);
}

} // namespace dtc::plan
