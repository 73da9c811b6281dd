#include "dtc-rt/Run.h"
#include "Session.h"

#include "dtc-rt/CPU/ThreadTeam.h"
#include "dtc-rt/OutputConflicts.h"
#include "dtc-rt/Platforms.h"

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace dtc::rt {

std::atomic<int> stopSignal{0};

namespace {

/// More threads than any machine has cores for; a larger world needs several machines.
constexpr int64_t kMostThreads = 4096;

/// How long ranks may take to notice that the run has been aborted.
constexpr auto kGrace = std::chrono::seconds(5);

/// While it lives, SIGINT, SIGTERM and SIGUSR1 ask for an end after the current
/// step; a second one ends the process at once.
class StopOnSignal {
public:
  StopOnSignal() {
    stopSignal.store(0);
    struct sigaction action {};
    action.sa_handler = [](int number) { stopSignal.store(number); };
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &action, &old[i]);
  }
  ~StopOnSignal() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &old[i], nullptr);
  }

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};
  struct sigaction old[std::size(kSignals)];
};

Status checkMode(const RunOptions &options, const Manifest &manifest) {
  if (Status status = checkTarget(manifest); !status.isOk())
    return std::move(status).in(options.artifact);
  if (manifest.worldSize * manifest.threadsPerRank > kMostThreads)
    return {ExitCode::NoFit, options.artifact + ": has more ranks than one machine can run "
                             "(compile with fewer --devices): " +
                                 std::to_string(manifest.worldSize)};
  bool inference = manifest.loss == "none";
  if (inference && options.outputs.empty())
    return {ExitCode::Usage, "the artifact computes outputs alone (--loss none); give --outputs"};
  if (!inference && !options.outputs.empty())
    return {ExitCode::Usage, "--outputs needs an artifact compiled with --loss none"};
  if (inference && (options.steps || !options.saveWeights.empty()))
    return {ExitCode::Usage, "--steps and --save-weights need an artifact that trains"};
  return Status::ok();
}

/// All ranks' arenas must fit into the machine's memory: later would be too late. A GPU's own
/// memory is asked for by its device.
Status checkMemory(const std::vector<ProgramView> &programs, const Manifest &manifest) {
  uint64_t needed = 0;
  for (size_t role = 0; role < programs.size(); ++role) {
    uint64_t ofDevice = manifest.isForGpu() ? 0 : programs[role]->arena_bytes();
    needed += manifest.roles[role].ranks.size() * (ofDevice + programs[role]->host_arena_bytes());
  }
  uint64_t there = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (needed <= there)
    return Status::ok();
  return {ExitCode::NoFit, "its ranks need more memory than this machine's " +
                               std::to_string(there) + " bytes: " + std::to_string(needed)};
}

Result<std::vector<ProgramView>> openPrograms(const Package &package) {
  const Manifest &manifest = package.manifest();
  std::vector<ProgramView> programs;
  for (size_t role = 0; role < manifest.roles.size(); ++role) {
    const std::string &member = manifest.roles[role].program;
    Result<std::span<const char>> bytes = package.read(member);
    if (!bytes)
      return bytes.status();
    Result<ProgramView> program = ProgramView::open(*bytes, manifest, role);
    if (!program)
      return std::move(program.status()).in(package.path() + ": " + member);
    programs.push_back(*program);
  }
  if (Status status = checkMemory(programs, manifest); !status.isOk())
    return std::move(status).in(package.path());
  return programs;
}

/// The first role that has something speaks for it.
Result<Speakers> findSpeakers(const std::vector<ProgramView> &programs, const Package &package) {
  using Kind = fbs::BindingKind;
  const Manifest &manifest = package.manifest();
  Speakers result;
  result.parameters.assign(manifest.parameters.size(), -1);
  result.outputs.assign(manifest.outputs.size(), -1);
  for (int role = static_cast<int>(programs.size()); role-- > 0;) {
    for (const fbs::Binding *binding :
         programs[role].bindings({Kind::Parameter, Kind::Buffer, Kind::Master}))
      result.parameters[manifest.findParameter(binding->name()->str()) -
                        manifest.parameters.data()] = role;
    for (const fbs::Binding *binding : programs[role].bindings({Kind::Output}))
      for (size_t i = 0; i < manifest.outputs.size(); ++i)
        if (manifest.outputs[i].name == binding->name()->str())
          result.outputs[i] = role;
    for (auto [kind, speaker] :
         {std::pair(Kind::Loss, &result.loss), {Kind::GradNorm, &result.gradNorm}})
      if (programs[role].binding(kind))
        *speaker = role;
  }
  if (manifest.loss != "none" && result.loss < 0)
    return package.wrong("trains without a loss");
  for (size_t i = 0; i < result.outputs.size(); ++i)
    if (result.outputs[i] < 0)
      return package.wrong("does not compute every output, lacks: " + manifest.outputs[i].name);
  return result;
}

Status loadCode(Platform &platform, const Package &package) {
  std::vector<CodeFile> files;
  for (const std::string &member : package.manifest().code) {
    Result<std::span<const char>> bytes = package.read(member);
    if (!bytes)
      return bytes.status();
    files.push_back({member.substr(std::string_view(kCodeFolder).size()), *bytes});
  }
  if (files.empty())
    return Status::ok();
  return platform.load(files).in(package.path());
}

/// Nothing that a run reads may be written by it: `--log` onto the data would empty them.
Status checkFiles(const RunOptions &options, const Package &package) {
  std::vector<NamedFile> inputs = {{"the artifact", options.artifact}, {"--data", options.data}};
  for (const WeightFile &file : package.manifest().weights.files)
    inputs.push_back({"the artifact's weights", weightPath(package, file)});
  NamedFile outputs[] = {{"--log", options.log},
                         {"--save-weights", options.saveWeights},
                         {"--outputs", options.outputs}};
  return checkOutputConflicts(inputs, outputs);
}

Result<std::unique_ptr<Session>> openSession(const RunOptions &options) {
  Result<Package> opened = Package::open(options.artifact);
  if (!opened)
    return opened.status();
  auto package = std::make_unique<const Package>(std::move(*opened));
  const Manifest &manifest = package->manifest();
  if (Status status = checkMode(options, manifest); !status.isOk())
    return status;
  if (Status status = checkFiles(options, *package); !status.isOk())
    return status;
  Result<std::unique_ptr<Platform>> platform = openPlatform(manifest);
  if (!platform)
    return std::move(platform.status()).in(options.artifact);
  Result<std::vector<ProgramView>> programs = openPrograms(*package);
  if (!programs)
    return programs.status();
  Result<Speakers> speakers = findSpeakers(*programs, *package);
  if (!speakers)
    return speakers.status();
  if (Status status = loadCode(**platform, *package); !status.isOk())
    return status;
  Result<DataSet> data = DataSet::open(options.data, manifest);
  if (!data)
    return data.status();
  Result<WeightReader> weights = WeightReader::open(*package, options.seed);
  if (!weights)
    return weights.status();
  bool shuffle = options.shuffle && options.outputs.empty();
  SampleOrder order(data->numSamples(), shuffle, options.seed);
  return std::unique_ptr<Session>(new Session{options, std::move(package), std::move(*programs),
                                              std::move(*speakers), std::move(*platform),
                                              std::move(*data), std::move(*weights), order});
}

/// The rest of a run would be made with the last learning rate.
void sayRateEnds(const LearningRateInfo &rate, int64_t steps) {
  bool ends = rate.schedule != LearningRateInfo::Schedule::Constant && rate.totalSteps < steps;
  if (ends)
    std::fprintf(stderr,
                 "dtc-run: warning: the learning rate reaches its minimum at step %lld (compile's "
                 "--total-steps), this run has %lld steps\n",
                 static_cast<long long>(rate.totalSteps), static_cast<long long>(steps));
}

Status openResults(Session &session) {
  const Manifest &manifest = session.manifest();
  int64_t epoch = (session.data.numSamples() + manifest.globalBatch - 1) / manifest.globalBatch;
  session.numSteps = session.options.steps.value_or(epoch);
  sayRateEnds(manifest.learningRate, session.numSteps);
  if (!session.options.saveWeights.empty()) {
    Result<WeightWriter> writer = WeightWriter::create(session.options.saveWeights, manifest);
    if (!writer)
      return writer.status();
    session.weightWriter.emplace(std::move(*writer));
  }
  if (session.isInference()) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const TensorInfo &output : manifest.outputs) {
      entries.push_back({output.name, output.dtype, output.shape});
      entries.back().shape[0] = session.data.numSamples();
    }
    Result<SafetensorsWriter> writer =
        SafetensorsWriter::create(session.options.outputs, std::move(entries));
    if (!writer)
      return writer.status();
    session.outputWriter.emplace(std::move(*writer));
  }
  MetricsSetup setup{manifest.globalBatch, manifest.sequence, 0, manifest.predictedStepTime,
                     session.numSteps};
  for (const ProgramView &program : session.programs)
    setup.arenaBytes = std::max(setup.arenaBytes, program->arena_bytes());
  Result<MetricsReporter> metrics = MetricsReporter::create(setup, session.options.log);
  if (!metrics)
    return metrics.status();
  session.metrics.emplace(std::move(*metrics));
  return Status::ok();
}

/// Cores of each rank where there are enough for all; else the system decides.
std::vector<std::vector<int>> divideCpus(int64_t ranks, int64_t threads) {
  std::vector<int> cpus = availableCpus();
  std::vector<std::vector<int>> result(static_cast<size_t>(ranks));
  if (ranks * threads > static_cast<int64_t>(cpus.size()))
    return result;
  for (int64_t rank = 0; rank < ranks; ++rank)
    result[rank].assign(cpus.begin() + rank * threads, cpus.begin() + (rank + 1) * threads);
  return result;
}

Status runWorker(RankWorker &worker) {
  try {
    return worker.run();
  } catch (const std::exception &error) { // out of memory; no other is known
    return failed(error.what());
  }
}

/// Ends the process although a rank hangs in its own code.
[[noreturn]] void leaveBehind(Session &session, const Status &reason) {
  if (session.weightWriter)
    session.weightWriter->discard();
  if (session.outputWriter)
    session.outputWriter->discard();
  std::fprintf(stderr, "dtc-run: error: %s\n", reason.message().c_str());
  std::_Exit(static_cast<int>(reason.code()));
}

/// Runs all ranks to their end. When one fails, the others have a few seconds to
/// notice; a rank that hangs in its own code then ends with the process.
Status runRanks(Session &session) {
  int64_t ranks = session.manifest().worldSize;
  auto limit = std::chrono::milliseconds(
      static_cast<int64_t>(session.options.timeoutSeconds * 1000));
  ThreadWorld world(static_cast<int>(ranks), limit);
  auto cpus = divideCpus(ranks, session.manifest().threadsPerRank);
  std::mutex mutex;
  std::condition_variable changed;
  int64_t running = ranks;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<RankWorker>> workers; // arenas live until all have ended
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    communicators.push_back(world.communicator(static_cast<int>(rank)));
    workers.push_back(
        std::make_unique<RankWorker>(session, *communicators.back(), std::move(cpus[rank])));
  }
  auto work = [&](RankWorker *worker) {
    if (Status status = runWorker(*worker); !status.isOk())
      world.abort(status);
    std::lock_guard lock(mutex);
    --running;
    changed.notify_all();
  };
  std::unique_lock lock(mutex);
  threads.reserve(workers.size());
  try {
    for (auto &worker : workers)
      threads.emplace_back(work, worker.get());
  } catch (const std::system_error &error) {
    world.abort(failed("cannot start a thread for rank " + std::to_string(threads.size()) + ": " +
                       error.what()));
    running -= ranks - static_cast<int64_t>(threads.size());
  }
  while (!changed.wait_for(lock, std::chrono::milliseconds(200), [&] {
    return running == 0 || !world.abortReason().isOk();
  })) {
  }
  Status reason = world.abortReason();
  if (!changed.wait_for(lock, kGrace, [&] { return running == 0; }))
    leaveBehind(session, reason);
  lock.unlock();
  for (std::thread &thread : threads)
    thread.join();
  return world.abortReason();
}

Status finish(Session &session) {
  if (session.weightWriter) {
    std::vector<bool> wasPut;
    for (int role : session.speakers.parameters)
      wasPut.push_back(role >= 0);
    if (Status status = session.weightWriter->finish(session.weights, wasPut); !status.isOk())
      return status;
  }
  return Status::ok();
}

} // namespace

Status run(const RunOptions &options) {
  Result<std::unique_ptr<Session>> opened = openSession(options);
  if (!opened)
    return opened.status();
  Session &session = **opened;
  if (Status status = openResults(session); !status.isOk())
    return status;
  StopOnSignal stopping;
  Status status = runRanks(session);
  std::string summary = session.metrics->finish();
  if (!status.isOk())
    return status;
  if (status = finish(session); !status.isOk())
    return status;
  if (!summary.empty())
    std::printf("%s\n", summary.c_str());
  if (int number = stopSignal.load(); number != 0 && session.stepsDone < session.numSteps) {
    std::string when = "stopped by signal " + std::to_string(number) + " after step " +
                       std::to_string(session.stepsDone);
    if (session.weightWriter)
      return {ExitCode::Stopped, when + ", weights saved"};
    return {static_cast<ExitCode>(128 + number), when};
  }
  if (session.outputWriter)
    return session.outputWriter->commit();
  return Status::ok();
}

} // namespace dtc::rt
