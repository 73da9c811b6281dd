#include "Session.h"

#include "dtc-rt/LearningRate.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dtc::rt {
namespace {

using fbs::BindingKind;

} // namespace

/// Queues end before the rank does: others may be reading its arena until all have. What the ranks
/// copied for a checkpoint is written first, whatever happened since and however long it takes.
Status RankWorker::run() {
  Status status = prepare();
  if (status.isOk())
    status = session.requests ? serveRequests() : runSteps();
  if (!status.isOk()) {
    watch.end();
    if (checkpointWriter)
      (void)checkpointWriter->finish();
    communicator.abort(status);
  }
  executor.reset();
  pipeline.reset();
  return status;
}

/// The outputs of a step are taken before the next one overwrites them. A step that a profile
/// shows has all that it issued.
Status RankWorker::runSteps() {
  const int64_t lag = device->isFarBehind() && !session.isInference() && !profile ? 1 : 0;
  lastFinished = std::chrono::steady_clock::now();
  issued = concluded = saved = session.start.step;
  if (Status status = exchangeNews(); !status.isOk())
    return status;
  beginWatch();
  while (issued < session.numSteps && news.stopSignal == 0) {
    int64_t begin = RankProfile::now();
    if (Status status = issue(++issued); !status.isOk())
      return status;
    bool isDue = session.checkpoints && session.checkpoints->isDue(issued);
    bool isLooked = isDue || isEvaluated(issued);
    if (Status status = concludeUpTo(isLooked ? issued : issued - lag); !status.isOk())
      return status;
    if (profile)
      profile->addStep(issued, begin, RankProfile::now());
    if (isDue)
      if (Status status = saveCheckpoint(); !status.isOk())
        return status;
  }
  return finishRun();
}

Status RankWorker::finishRun() {
  watch.end();
  if (concluded < issued)
    if (Status status = concludeUpTo(issued); !status.isOk())
      return status;
  if (checkpointWriter) {
    if (saved < concluded)
      if (Status status = saveCheckpoint(); !status.isOk())
        return status;
    if (Status status = checkpointWriter->finish(); !status.isOk())
      return status;
  }
  if (profile)
    if (Status status = profile->write(communicator, session.options.profile); !status.isOk())
      return status;
  return session.savesWeights() ? saveWeights() : Status::ok();
}

/// The time limit that a user gives holds for all.
void RankWorker::beginWatch() {
  if (!session.options.timeoutSeconds)
    watch.begin(/*computesHere=*/!device->isFarBehind());
}

RankRequests::Request RankWorker::nextRequest() {
  const StepWatch::Pause waiting(watch);
  return session.requests->next();
}

Status RankWorker::serveRequests() {
  using Request = RankRequests::Request;
  Status status = Status::ok();
  beginWatch();
  while (status.isOk()) {
    const Request request = nextRequest();
    if (request == Request::End)
      break;
    if (request == Request::SaveWeights) {
      const StepWatch::Pause saving(watch);
      status = saveWeights();
      continue;
    }
    if (request == Request::Evaluate) {
      status = evaluate(issued);
      if (leads())
        session.evalLoss = news.evalLoss.value_or(0);
      continue;
    }
    lastFinished = std::chrono::steady_clock::now();
    status = issue(++issued);
    if (status.isOk())
      status = concludeUpTo(issued);
  }
  return status;
}

Status RankWorker::saveCheckpoint() {
  const StepWatch::Pause saving(watch);
  const auto begin = std::chrono::steady_clock::now();
  saved = concluded;
  Status status = checkpointWriter->save(session.pointAfter(saved));
  watch.leaveOut(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return status;
}

Status RankWorker::concludeUpTo(int64_t number) {
  if (concluded >= number)
    return exchangeNews();
  while (concluded < number)
    if (Status status = conclude(++concluded); !status.isOk())
      return status;
  return Status::ok();
}

Status RankWorker::conclude(int64_t number) {
  if (Status status = finish(number); !status.isOk())
    return status;
  if (lost.endRun() && *own.lostRows > 0)
    return refuseLostRows("step " + std::to_string(number), lostByLayer);
  if (Status status = exchangeNews(); !status.isOk())
    return status;
  auto now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - std::exchange(lastFinished, now)).count();
  watch.endStep(seconds);
  if (isEvaluated(number) && news.stopSignal == 0) {
    if (Status status = evaluate(number); !status.isOk())
      return status;
    lastFinished = std::chrono::steady_clock::now();
  }
  if (!leads())
    return Status::ok();
  session.lastStep = measure(number, seconds);
  if (session.metrics) {
    const StepWatch::Pause writing(watch);
    if (number == session.start.step + 1) // ranks may only connect in their first step
      session.metrics->setOverhead(device->overhead());
    session.metrics->report(session.lastStep);
  }
  return Status::ok();
}

Status RankWorker::prepare() {
  std::vector<int> everyone(communicator.worldSize());
  std::iota(everyone.begin(), everyone.end(), 0);
  world = communicator.group(everyone);
  auto made = createDevice();
  if (!made)
    return made.status();
  device = std::move(*made);
  for (auto [space, bytes, memory] :
       {std::tuple(Space::Device, program->arena_bytes(), &arena),
        std::tuple(Space::Host, program->host_arena_bytes(), &hostArena)}) {
    auto allocated = device->allocate(space, bytes);
    if (!allocated)
      return allocated.status();
    *memory = std::move(*allocated);
  }
  Result<Executor> ready = Executor::create({program, *device, communicator.rank(), place.second,
                                             arena->base(), hostArena->base()});
  if (!ready)
    return std::move(ready.status()).in(session.package->path());
  executor.emplace(std::move(*ready));
  if (Status status = createPipeline(); !status.isOk())
    return status;
  if (Status status = loadWeights(); !status.isOk())
    return status;
  return session.checkpoints ? createCheckpointWriter() : Status::ok();
}

Result<std::unique_ptr<Device>> RankWorker::createDevice() {
  DeviceOptions options{static_cast<int>(session.manifest().threadsPerRank), cpus};
  if (session.options.launch)
    options.localProcess = session.options.launch->localRank;
  options.autotunes = session.options.autotunes;
  if (!session.options.profile.empty())
    options.profile = &profile.emplace();
  return session.platform->createDevice(communicator, options);
}

Status RankWorker::createPipeline() {
  std::vector<StepPipeline::Entry> inputs, results;
  for (const fbs::Binding *binding : program.bindings({BindingKind::Input, BindingKind::Target}))
    for (uint32_t microbatch = 0; microbatch < program->num_microbatches(); ++microbatch)
      stepInputs.push_back({binding, microbatch});
  for (const fbs::Binding *scalar : program.bindings(
           {BindingKind::LearningRate, BindingKind::StepNumber, BindingKind::Evaluation}))
    stepInputs.push_back({scalar});
  for (const StepInput &input : stepInputs)
    inputs.push_back({at(*input.binding, input.microbatch), bytesOf(*input.binding)});
  for (const fbs::Binding *binding : program.bindings(
           {BindingKind::Loss, BindingKind::GradNorm, BindingKind::NonFinite, BindingKind::Buffer}))
    if (StepNews::numberOf(*binding)) {
      stepResults.push_back(binding);
      results.push_back({at(*binding), sizeof(float)});
    }
  lost = LostRows::of(program);
  if (lost.total) {
    stepResults.push_back(lost.total);
    if (lost.endRun())
      for (const LostRows::Layer &layer : lost.layers)
        stepResults.push_back(layer.binding);
  }
  for (size_t i = results.size(); i < stepResults.size(); ++i)
    results.push_back({at(*stepResults[i]), sizeof(float)});
  Result<StepPipeline> made =
      StepPipeline::create(*device, *executor, std::move(inputs), std::move(results));
  if (!made)
    return made.status();
  pipeline.emplace(std::move(*made));
  return Status::ok();
}

Status RankWorker::createCheckpointWriter() {
  const RunCheckpoints &checkpoints = *session.checkpoints;
  std::vector<Address> sources;
  for (const OwnedPart &owned : checkpoints.files.ranks[communicator.rank()].parts)
    sources.push_back(at(*owned.binding) + owned.part.at * sizeOf(dtypeOf(owned.binding->dtype())));
  auto made = CheckpointWriter::create(
      {checkpoints.files, checkpoints.folder, checkpoints.cpus, checkpoints.keep}, communicator,
      *device, std::move(sources));
  if (!made)
    return made.status();
  checkpointWriter = std::move(*made);
  return Status::ok();
}

Status RankWorker::finish(int64_t number) {
  if (Status status = pipeline->await(number); !status.isOk())
    return status;
  if (session.isInference())
    if (Status status = storeOutputs(number); !status.isOk())
      return status;
  return lookAtResults(number);
}

StepMetrics RankWorker::measure(int64_t number, double seconds) const {
  return {number,
          news.loss,
          news.gradNorm,
          news.nonFinite,
          learningRateAt(session.manifest().learningRate, number),
          seconds,
          news.evalLoss,
          news.lossScale,
          news.skippedSteps,
          lost.areDropped ? own.lostRows : std::nullopt};
}

Status RankWorker::collect(size_t role, const fbs::Binding &binding, uint32_t microbatch,
                           const Store &store) {
  const std::vector<int> &ranks = session.manifest().roles[role].ranks;
  RankMesh theirs = meshOf(*session.programs[role]);
  for (size_t position = 0; position < ranks.size(); ++position) {
    Part part =
        theirs.part(dimsOf(binding.shape()), placementOf(binding), static_cast<int64_t>(position));
    bool isHolder = ranks[position] == communicator.rank();
    if (!part.shard.first || (!isHolder && !leads()))
      continue;
    Status status = Status::ok();
    if (isHolder) {
      Status read = device->read(at(binding, microbatch), bytesOf(binding), [&](const char *host) {
        SendBlock block{host, bytesOf(binding)};
        if (leads())
          store(part, host);
        else
          status = communicator.send(/*to=*/0, kRuntimeChannel, {&block, 1});
      });
      if (status.isOk())
        status = std::move(read);
    } else {
      collected.resize(bytesOf(binding));
      ReceiveBlock block{collected.data(), collected.size()};
      status = communicator.receive(ranks[position], kRuntimeChannel, {&block, 1});
      if (status.isOk())
        store(part, collected.data());
    }
    if (!status.isOk())
      return status;
  }
  return Status::ok();
}

Status RankWorker::storeOutputs(int64_t number) {
  const StepWatch::Pause storing(watch);
  const Manifest &manifest = session.manifest();
  for (size_t output = 0; output < manifest.outputs.size(); ++output) {
    auto role = static_cast<size_t>(session.speakers.outputs[output]);
    const ProgramView &theirs = session.programs[role];
    for (const fbs::Binding *binding : theirs.bindings({BindingKind::Output})) {
      if (binding->name()->str() != manifest.outputs[output].name)
        continue;
      for (uint32_t microbatch = 0; microbatch < theirs->num_microbatches(); ++microbatch) {
        int64_t first = (number - 1 - session.outputs.since) * manifest.globalBatch +
                        microbatch * manifest.outputs[output].shape[0];
        Status status =
            collect(role, *binding, microbatch, [&](const Part &part, const char *host) {
              storeOutput(output, dtypeOf(binding->dtype()), part, first, host);
            });
        if (!status.isOk())
          return status;
      }
    }
  }
  return Status::ok();
}

/// Elements of samples that the file has along another dimension than the first.
static void storeMoved(const TensorInfo &info, const Dims &whole, const Dims &part,
                       const Dims &offset, DType dtype, const char *source, char *target) {
  auto dim = static_cast<size_t>(*info.batchDim);
  Dims strides(whole.size(), 1); // in the file, by the program's dimensions
  int64_t stride = 1;
  for (size_t i = whole.size(); i-- > 0;) { // dimension i of the file
    size_t ours = i == dim ? 0 : i < dim ? i + 1 : i;
    strides[ours] = stride;
    stride *= whole[ours];
  }
  int64_t count = product(part);
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n, at = 0;
    for (size_t i = part.size(); i-- > 0; rest /= part[i])
      at += (offset[i] + rest % part[i]) * strides[i];
    convert(info.dtype, target + at * sizeOf(info.dtype), dtype, source + n * sizeOf(dtype), 1);
  }
}

/// What lies beyond the last sample was computed on samples that came again.
void RankWorker::storeOutput(size_t output, DType dtype, const Part &part, int64_t first,
                             const char *source) {
  const TensorInfo &info = session.manifest().outputs[output];
  Box from{part.shard.shape, Dims(part.shard.shape.size(), 0)}, to{info.shape, part.shard.offset};
  if (!info.isWhole()) {
    to.whole[0] = session.outputs.samples;
    to.offset[0] += first;
  }
  Dims shape = part.shard.shape;
  shape[0] = std::min(shape[0], to.whole[0] - to.offset[0]);
  if (shape[0] <= 0)
    return;
  char *target = session.outputs.data[output];
  if (info.batchDim.value_or(0) > 0)
    return storeMoved(info, to.whole, shape, to.offset, dtype, source, target);
  forEachRun(shape, to, from, [&](int64_t toIndex, int64_t fromIndex, int64_t count) {
    convert(info.dtype, target + toIndex * sizeOf(info.dtype), dtype,
            source + fromIndex * sizeOf(dtype), count);
  });
}

} // namespace dtc::rt
