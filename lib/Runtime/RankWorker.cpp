#include "Session.h"

#include "dtc-rt/LearningRate.h"

#include <cmath>
#include <cstring>
#include <numeric>

namespace dtc::rt {
namespace {

size_t indexOf(const std::vector<TensorInfo> &list, const std::string &name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name)
      return i;
  return list.size(); // not reached: ProgramView knows all bindings
}

size_t indexOf(const Manifest &manifest, const fbs::Binding &binding) {
  return static_cast<size_t>(manifest.findParameter(binding.name()->str()) -
                             manifest.parameters.data());
}

using Kind = fbs::BindingKind;

} // namespace

Status RankWorker::run() {
  std::vector<int> everyone(communicator.worldSize());
  std::iota(everyone.begin(), everyone.end(), 0);
  world = communicator.group(everyone);
  if (Status status = prepare(); !status.isOk())
    return status;
  bool leader = communicator.rank() == 0;
  for (int64_t number = 1; number <= session.numSteps; ++number) {
    if (leader)
      session.stop = stopSignal.load() != 0;
    if (Status status = communicator.barrier(world); !status.isOk())
      return status;
    if (session.stop)
      break;
    auto start = std::chrono::steady_clock::now();
    if (Status status = step(number); !status.isOk())
      return status;
    tellResults();
    // All have read `stop` and finished the step; the leader may go on.
    if (Status status = communicator.barrier(world); !status.isOk())
      return status;
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!leader)
      continue;
    session.stepsDone = number;
    if (Status status = session.metrics->report(measure(number, seconds)); !status.isOk())
      return status;
  }
  return session.weightWriter ? saveWeights() : Status::ok();
}

Status RankWorker::prepare() {
  team.emplace(static_cast<int>(session.manifest().threadsPerRank), cpus);
  Result<Arena> memory = Arena::create(program->arena_bytes());
  if (!memory)
    return memory.status();
  arena.emplace(std::move(*memory));
  Result<Arena> hostMemory = Arena::create(program->host_arena_bytes());
  if (!hostMemory)
    return hostMemory.status();
  hostArena.emplace(std::move(*hostMemory));
  Result<Executor> made =
      Executor::create({session.manifest(), program, session.code, communicator, *team,
                        arena->data(), hostArena->data()});
  if (!made)
    return std::move(made.status()).in(session.package->path());
  executor.emplace(std::move(*made));
  loadWeights();
  return Status::ok();
}

/// Other states begin as zeros, which the arena is.
void RankWorker::loadWeights() {
  for (const fbs::Binding *binding :
       program.bindings({Kind::Parameter, Kind::Buffer, Kind::Master}))
    session.weights.read(indexOf(session.manifest(), *binding), partOf(*binding),
                         dtypeOf(binding->dtype()), at(*binding));
}

Status RankWorker::step(int64_t number) {
  if (Status status = loadData(number); !status.isOk())
    return status;
  writeScalars(number);
  if (Status status = executor->runStep(); !status.isOk())
    return status;
  if (session.isInference())
    storeOutputs(number);
  return checkFinite(number);
}

Status RankWorker::loadData(int64_t number) {
  const Manifest &manifest = session.manifest();
  std::vector<int64_t> samples;
  for (const fbs::Binding *binding : program.bindings({Kind::Input, Kind::Target})) {
    size_t input = indexOf(manifest.inputs, binding->name()->str());
    const TensorInfo &info = manifest.inputs[input];
    Shard shard = partOf(*binding).shard;
    for (uint32_t microbatch = 0; microbatch < program->num_microbatches(); ++microbatch) {
      samples.resize(static_cast<size_t>(info.shape[0]));
      int64_t first = (number - 1) * manifest.globalBatch + microbatch * info.shape[0];
      for (int64_t i = 0; i < info.shape[0]; ++i)
        samples[i] = session.order.at(first + i);
      if (Status status = session.data.read(input, samples, shard, dtypeOf(binding->dtype()),
                                            at(*binding, microbatch));
          !status.isOk())
        return status;
    }
  }
  return Status::ok();
}

void RankWorker::writeScalars(int64_t number) {
  for (const fbs::Binding *scalar : program.bindings({Kind::LearningRate, Kind::StepNumber})) {
    double value = scalar->kind() == Kind::LearningRate
                       ? learningRateAt(session.manifest().learningRate, number)
                       : static_cast<double>(number);
    convert(dtypeOf(scalar->dtype()), at(*scalar), DType::F64,
            reinterpret_cast<const char *>(&value), 1);
  }
}

std::optional<double> RankWorker::readFloat(Kind kind) const {
  const fbs::Binding *binding = program.binding(kind);
  if (!binding)
    return std::nullopt;
  float value;
  std::memcpy(&value, at(*binding), sizeof(value));
  return value;
}

Status RankWorker::checkFinite(int64_t number) const {
  for (auto [name, kind] : {std::pair("loss", Kind::Loss), {"gradient norm", Kind::GradNorm}}) {
    std::optional<double> value = readFloat(kind);
    if (value && !std::isfinite(*value))
      return {ExitCode::NotFinite, "step " + std::to_string(number) + ": rank " +
                                       std::to_string(communicator.rank()) + ": the " + name +
                                       " is not finite: " + std::to_string(*value)};
  }
  return Status::ok();
}

void RankWorker::tellResults() {
  if (place.second != 0)
    return;
  if (speaksFor(session.speakers.loss))
    session.loss = readFloat(Kind::Loss);
  if (speaksFor(session.speakers.gradNorm))
    session.gradNorm = readFloat(Kind::GradNorm);
}

StepMetrics RankWorker::measure(int64_t number, double seconds) const {
  return {number, session.loss, session.gradNorm,
          learningRateAt(session.manifest().learningRate, number), seconds};
}

void RankWorker::storeOutputs(int64_t number) {
  const Manifest &manifest = session.manifest();
  for (const fbs::Binding *binding : program.bindings({Kind::Output})) {
    size_t output = indexOf(manifest.outputs, binding->name()->str());
    const TensorInfo &info = manifest.outputs[output];
    Shard shard = partOf(*binding).shard;
    if (!shard.first || !speaksFor(session.speakers.outputs[output]))
      continue;
    DType dtype = dtypeOf(binding->dtype());
    for (uint32_t microbatch = 0; microbatch < program->num_microbatches(); ++microbatch) {
      // What lies beyond the last sample was computed on samples that came again.
      Box from{shard.shape, Dims(shard.shape.size(), 0)}, to{info.shape, shard.offset};
      to.whole[0] = session.data.numSamples();
      to.offset[0] += (number - 1) * manifest.globalBatch + microbatch * info.shape[0];
      Dims part = shard.shape;
      part[0] = std::min(part[0], to.whole[0] - to.offset[0]);
      if (part[0] <= 0)
        continue;
      const char *source = at(*binding, microbatch);
      char *target = session.outputWriter->data(output);
      forEachRun(part, to, from, [&](int64_t toIndex, int64_t fromIndex, int64_t count) {
        convert(info.dtype, target + toIndex * sizeOf(info.dtype), dtype,
                source + fromIndex * sizeOf(dtype), count);
      });
    }
  }
}

/// Masters after parameters: they have the full precision.
Status RankWorker::saveWeights() {
  const Manifest &manifest = session.manifest();
  std::vector<const fbs::Binding *> best(manifest.parameters.size(), nullptr);
  for (auto kinds : {std::initializer_list<Kind>{Kind::Parameter, Kind::Buffer}, {Kind::Master}})
    for (const fbs::Binding *binding : program.bindings(kinds))
      best[indexOf(manifest, *binding)] = binding;
  for (size_t i = 0; i < best.size(); ++i) {
    if (!best[i] || !speaksFor(session.speakers.parameters[i]))
      continue;
    Part part = partOf(*best[i]);
    if (part.shard.first)
      session.weightWriter->put(i, part, dtypeOf(best[i]->dtype()), at(*best[i]));
  }
  return communicator.barrier(world);
}

} // namespace dtc::rt
