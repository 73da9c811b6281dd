#include "Evaluation.h"
#include "Session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

namespace dtc::rt {
namespace {

using fbs::BindingKind;

/// Bytes of an arena, by space and offset.
struct Range {
  fbs::Space space;
  uint64_t begin, end;
};

uint64_t bytesOf(const fbs::Binding &binding) {
  return static_cast<uint64_t>(product(dimsOf(binding.local_shape())) *
                               sizeOf(dtypeOf(binding.dtype())));
}

/// What an evaluation must not write, by where it lies: weights and states. So are buffers, unless
/// the program knows when it evaluates, and then writes what they were.
class KeptTensors {
public:
  explicit KeptTensors(const ProgramView &program) {
    const bool keepsBuffers = !program.bindings({BindingKind::Evaluation}).empty();
    for (const fbs::Binding *binding :
         program.bindings({BindingKind::Parameter, BindingKind::Buffer, BindingKind::Master,
                           BindingKind::State})) {
      if (keepsBuffers && binding->kind() == BindingKind::Buffer)
        continue;
      if (uint64_t bytes = bytesOf(*binding))
        byEnd.emplace(std::pair(binding->ref()->space(), binding->ref()->offset() + bytes),
                      binding);
    }
  }
  /// The one that has bytes in the range, or null.
  const fbs::Binding *find(const Range &range) const {
    auto next = byEnd.upper_bound({range.space, range.begin});
    bool meets = next != byEnd.end() && next->first.first == range.space &&
                 next->second->ref()->offset() < range.end;
    return meets ? next->second : nullptr;
  }

private:
  std::map<std::pair<fbs::Space, uint64_t>, const fbs::Binding *> byEnd;
};

/// What a call writes of what training keeps, or null.
const fbs::Binding *findWritten(const fbs::Program &program, const fbs::Call &call,
                                const KeptTensors &kept) {
  const fbs::Function &function = *program.functions()->Get(call.function());
  for (const fbs::Instruction *instruction : *function.instructions())
    for (uint32_t i = 0; instruction->writes() && i < instruction->writes()->size(); ++i) {
      const fbs::Value &value = *function.values()->Get(instruction->writes()->Get(i));
      uint64_t begin = offsetOf(value.ref(), call);
      if (const fbs::Binding *binding =
              kept.find({value.ref().space(), begin, begin + value.bytes()}))
        return binding;
    }
  return nullptr;
}

Status checkKeepsState(const ProgramView &program) {
  KeptTensors kept(program);
  size_t calls = callsBeforeUpdate(*program);
  for (uint32_t i = 0; i < calls; ++i)
    if (const fbs::Binding *binding = findWritten(*program, *program->schedule()->Get(i), kept))
      return {ErrorCategory::Usage,
              "evaluation would change what the model keeps from step to step: " +
                  binding->name()->str()};
  return Status::ok();
}

Status checkPrograms(const std::vector<ProgramView> &programs) {
  bool hasLoss = false, hasCount = false;
  for (const ProgramView &program : programs) {
    if (Status status = checkKeepsState(program); !status.isOk())
      return status;
    LossTerm term = LossTerm::of(program, 0);
    hasLoss = hasLoss || term.loss;
    hasCount = hasCount || term.count;
  }
  if (!hasLoss || !hasCount)
    return {ErrorCategory::Usage,
            "evaluation needs an artifact that has its loss before the update"};
  return Status::ok();
}

/// A function of the step in front of its update that gives this; null: none does.
const fbs::Binding *findGiven(const fbs::Program &program, BindingKind kind) {
  size_t calls = callsBeforeUpdate(program);
  for (uint32_t i = 0; i < calls; ++i) {
    const fbs::Function &function =
        *program.functions()->Get(program.schedule()->Get(i)->function());
    if (kind == BindingKind::Loss && !function.per_microbatch())
      continue; // what clears it
    for (const fbs::BoundValue *result : *function.results()) {
      const fbs::Binding *binding = program.bindings()->Get(result->binding());
      bool isNamedCount =
          kind == BindingKind::Count && binding->name() && binding->name()->size() > 0;
      if (binding->kind() == kind && !isNamedCount)
        return binding;
    }
  }
  return nullptr;
}

} // namespace

Result<std::optional<Evaluation>> Evaluation::open(const RunOptions &options,
                                                   const std::vector<ProgramView> &programs,
                                                   const Manifest &manifest) {
  using Opened = std::optional<Evaluation>;
  if (options.evalData.empty())
    return Opened();
  if (!options.profile.empty())
    return Status(ErrorCategory::Usage,
                  "--eval-data and --profile are for separate runs: a profile is "
                  "of training alone")
        .in(options.artifact);
  Result<DataSet> data = DataSet::open(options.evalData, manifest);
  if (!data)
    return data.status();
  Result<Evaluation> made = of(std::move(*data), options.artifact, programs, manifest);
  if (!made)
    return made.status();
  made->every = options.evalEvery;
  return Opened(std::move(*made));
}

Result<Evaluation> Evaluation::of(DataSet data, const std::string &name,
                                  const std::vector<ProgramView> &programs,
                                  const Manifest &manifest) {
  if (Status status = checkPrograms(programs); !status.isOk())
    return std::move(status).in(name);
  int64_t batches = data.numSamples() / manifest.globalBatch;
  return Evaluation{std::move(data), std::nullopt, batches};
}

/// Ranks that differ along an axis on which the loss is no sum have the same term.
LossTerm LossTerm::of(const ProgramView &program, size_t position) {
  LossTerm term;
  const fbs::Binding *loss = findGiven(*program, BindingKind::Loss);
  if (!loss)
    return term;
  RankMesh mesh = meshOf(*program);
  std::set<int32_t> summed;
  if (const auto *axes = loss->placement()->partial_axes())
    summed.insert(axes->begin(), axes->end());
  AxisList others;
  for (size_t axis = 0; axis < mesh.getAxes().size(); ++axis)
    if (!summed.contains(static_cast<int32_t>(axis)))
      others.push_back(static_cast<int32_t>(axis));
  if (mesh.position(static_cast<int64_t>(position), others) == 0)
    term.loss = loss;
  if (position == 0)
    term.count = findGiven(*program, BindingKind::Count);
  return term;
}

/// All ranks add up the same terms in the same order, and end early after the same batch. Who asks
/// for one evaluation gets its loss, whatever it is.
Status RankWorker::evaluate(int64_t number) {
  double loss = 0, count = 0, lostRows = 0;
  const std::string when = "evaluation after step " + std::to_string(number);
  for (int64_t batch = 0; batch < session.evaluation->numBatches; ++batch) {
    Result<std::vector<double>> terms = evaluateBatch(number, batch);
    if (!terms)
      return terms.status();
    watch.endBatch();
    for (size_t i = 0; i < terms->size(); i += kLossTermItems) {
      loss += (*terms)[i];
      count += (*terms)[i + 1];
      news.stopSignal = std::max(news.stopSignal, static_cast<int>((*terms)[i + 2]));
      lostRows += (*terms)[i + 3];
    }
    if (lostRows > 0) {
      Result<std::vector<double>> byLayer = readLostRows();
      return byLayer ? refuseLostRows(when, *byLayer) : byLayer.status();
    }
    if (news.stopSignal != 0)
      return Status::ok();
  }
  double mean = loss / count;
  if (!std::isfinite(mean) && !session.requests)
    return {ErrorCategory::NotFinite, when + ": the loss is not finite: " + std::to_string(mean)};
  news.evalLoss = mean;
  return Status::ok();
}

/// Of all ranks: the term of the loss, the number of targets, a signal to stop, and rows without a
/// slot that end the run. The step's place for inputs is free, as it is complete; what else it took
/// is still there.
Result<std::vector<double>> RankWorker::evaluateBatch(int64_t number, int64_t batch) {
  const Evaluation &evaluation = *session.evaluation;
  Samples samples{evaluation.data,
                  SampleOrder(evaluation.data.numSamples(), /*shuffled=*/false, /*seed=*/0),
                  batch * session.manifest().globalBatch, /*isEvaluated=*/true};
  if (Status status = pipeline->begin(number); !status.isOk())
    return status;
  if (Status status = writeInputs(number, samples); !status.isOk())
    return status;
  if (Status status = pipeline->issue(number, StepPart::Evaluation); !status.isOk())
    return status;
  if (Status status = pipeline->await(number); !status.isOk())
    return status;
  LossTerm term = LossTerm::of(program, place.second);
  double mine[kLossTermItems] = {0, 0, static_cast<double>(stopSignal.load()), 0};
  if (lost.endRun()) {
    Result<std::vector<double>> byLayer = readLostRows();
    if (!byLayer)
      return byLayer.status();
    mine[3] = std::accumulate(byLayer->begin(), byLayer->end(), 0.0);
  }
  for (auto [binding, into] : {std::pair(term.loss, &mine[0]), {term.count, &mine[1]}})
    if (binding) {
      float value = 0;
      Status status = device->read(at(*binding), sizeof(value), [&](const char *host) {
        std::memcpy(&value, host, sizeof(value));
      });
      if (!status.isOk())
        return status;
      *into = value;
    }
  return tellAll(mine);
}

} // namespace dtc::rt
