#include "dtc-rt/Run.h"
#include "Session.h"

#include "dtc-rt/CPU/ThreadTeam.h"
#include "dtc-rt/OutputConflicts.h"
#include "dtc-rt/Platforms.h"
#include "dtc-rt/ProcessCommunicator.h"
#include "dtc-rt/Sha256.h"
#include "dtc-rt/ThreadCommunicator.h"

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

Status checkLaunch(const Launch &launch, const Manifest &manifest) {
  if (launch.worldSize != manifest.worldSize)
    return {ExitCode::NoFit, "was compiled for other than the " + std::to_string(launch.worldSize) +
                                 " ranks that were started (start as many, or compile with "
                                 "--devices " +
                                 std::to_string(launch.worldSize) +
                                 "): " + std::to_string(manifest.worldSize)};
  return Status::ok();
}

Status checkMode(const RunOptions &options, const Manifest &manifest) {
  if (Status status = checkTarget(manifest); !status.isOk())
    return std::move(status).in(options.artifact);
  if (options.launch)
    if (Status status = checkLaunch(*options.launch, manifest); !status.isOk())
      return std::move(status).in(options.artifact);
  if (!options.launch && manifest.worldSize * manifest.threadsPerRank > kMostThreads)
    return {ExitCode::NoFit, options.artifact + ": has more ranks than one machine can run "
                             "(compile with fewer --devices): " +
                                 std::to_string(manifest.worldSize)};
  bool inference = manifest.loss == "none";
  if (inference && options.hasData && options.outputs.empty())
    return {ExitCode::Usage, "the artifact computes outputs alone (--loss none); give --outputs"};
  if (!inference && !options.outputs.empty())
    return {ExitCode::Usage, "--outputs needs an artifact compiled with --loss none"};
  if (inference && (options.steps || !options.saveWeights.empty() ||
                    !options.checkpointDir.empty() || !options.evalData.empty()))
    return {ExitCode::Usage, "--steps, --save-weights, --checkpoint-dir and --eval-data need an "
                             "artifact that trains"};
  return Status::ok();
}

/// Launchers number the ranks of a machine one after another.
std::vector<int> ranksOfMachine(const RunOptions &options, const Manifest &manifest) {
  int first = 0, count = static_cast<int>(manifest.worldSize);
  if (options.launch) {
    first = options.launch->rank - options.launch->localRank;
    count = std::min(count - first, options.launch->localWorldSize);
  }
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

/// All ranks' arenas, and what they copy for a checkpoint, must fit into the machine's memory:
/// later would be too late. A GPU's own memory is asked for by its device.
Status checkMemory(const std::vector<ProgramView> &programs, const Manifest &manifest,
                   const RunOptions &options, const std::optional<RunCheckpoints> &checkpoints) {
  uint64_t needed = 0;
  for (int rank : ranksOfMachine(options, manifest)) {
    const ProgramView &program = programs[manifest.roleOf(rank).first];
    uint64_t ofDevice = manifest.isForGpu() ? 0 : program->arena_bytes();
    needed += ofDevice + program->host_arena_bytes();
    needed += checkpoints ? checkpoints->layout.bytesOf(rank) : 0;
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
    for (auto [kind, speaker] : {std::pair(Kind::Loss, &result.loss),
                                 {Kind::GradNorm, &result.gradNorm},
                                 {Kind::NonFinite, &result.nonFinite}})
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
  std::vector<NamedFile> inputs = {{"the artifact", options.artifact},
                                   {"--data", options.data},
                                   {"--eval-data", options.evalData}};
  for (const WeightFile &file : package.manifest().weights.files)
    inputs.push_back({"the artifact's weights", pathOf(package, file.path)});
  NamedFile outputs[] = {{"--log", options.log},
                         {"--save-weights", options.saveWeights},
                         {"--profile", options.profile},
                         {"--outputs", options.outputs}};
  Status status = checkOutputConflicts(inputs, outputs);
  return status.isOk() ? checkOutputFolders(std::span(outputs).last(2)) : status; // late ones
}

} // namespace

Result<std::unique_ptr<Session>> openSession(RunOptions options) {
  Result<Package> opened = Package::open(options.artifact);
  if (!opened)
    return opened.status();
  auto package = std::make_unique<const Package>(std::move(*opened));
  const Manifest &manifest = package->manifest();
  if (Status status = checkMode(options, manifest); !status.isOk())
    return status;
  if (options.hasData && options.data.empty()) {
    if (manifest.data.empty())
      return Status(ExitCode::Usage, "--data is missing: dtc-run OUT.dtc --data FILE");
    options.data = pathOf(*package, manifest.data);
  }
  if (Status status = checkFiles(options, *package); !status.isOk())
    return status;
  int64_t ranksHere = options.launch ? 1 : manifest.worldSize;
  Result<std::unique_ptr<Platform>> platform = openPlatform(manifest, ranksHere);
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
  Result<DataSet> data = options.data.empty() ? DataSet() : DataSet::open(options.data, manifest);
  if (!data)
    return data.status();
  auto evaluation = Evaluation::open(options, *programs, manifest);
  if (!evaluation)
    return evaluation.status();
  auto checkpoints = RunCheckpoints::open(options, *programs, manifest, data->numSamples());
  if (!checkpoints)
    return checkpoints.status();
  if (Status status = checkMemory(*programs, manifest, options, *checkpoints); !status.isOk())
    return std::move(status).in(options.artifact);
  TrainingPoint start = startOf(options, *checkpoints, data->numSamples());
  Result<WeightReader> weights = WeightReader::open(*package, start.seed);
  if (!weights)
    return weights.status();
  SampleOrder order(start.samples, start.shuffle, start.seed);
  return std::unique_ptr<Session>(new Session{options, std::move(package), std::move(*programs),
                                              std::move(*speakers), std::move(*platform),
                                              std::move(*data), std::move(*weights), order, start,
                                              std::move(*checkpoints), std::move(*evaluation)});
}

namespace {

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
  if (session.options.launch && session.options.launch->rank != 0)
    return Status::ok(); // results are rank 0's
  sayRateEnds(manifest.learningRate, session.numSteps);
  if (session.savesWeights()) {
    Result<WeightWriter> writer = WeightWriter::create(session.options.saveWeights, manifest,
                                                       session.options.savedWeights, Writers::One);
    if (!writer)
      return writer.status();
    session.weightWriter.emplace(std::move(*writer));
  }
  if (session.isInference()) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const TensorInfo &output : manifest.outputs) {
      entries.push_back({output.name, output.dtype, output.fileShape(session.data.numSamples())});
    }
    Result<SafetensorsWriter> writer =
        SafetensorsWriter::create(session.options.outputs, std::move(entries), Writers::One);
    if (!writer)
      return writer.status();
    session.outputWriter.emplace(std::move(*writer));
    session.outputs = {{}, session.start.step, session.data.numSamples()};
    for (size_t i = 0; i < manifest.outputs.size(); ++i)
      session.outputs.data.push_back(session.outputWriter->data(i));
  }
  MetricsSetup setup{manifest.globalBatch, manifest.sequence, 0, 0, manifest.predictedStepTime,
                     session.start.step,   session.numSteps};
  for (const ProgramView &program : session.programs) {
    setup.arenaBytes = std::max(setup.arenaBytes, program->arena_bytes());
    setup.hostBytes = std::max(setup.hostBytes, program->host_arena_bytes());
  }
  Result<MetricsReporter> metrics = MetricsReporter::create(setup, session.options.log);
  if (!metrics)
    return metrics.status();
  session.metrics.emplace(std::move(*metrics));
  return Status::ok();
}

} // namespace

std::vector<std::vector<int>> divideCpus(const Session &session, const World &world) {
  auto ranks = ranksOfMachine(session.options, session.manifest());
  auto threads = static_cast<size_t>(session.manifest().threadsPerRank);
  std::vector<int> cpus = availableCpus();
  // One more than its threads where there is one for each rank: for what is exchanged meanwhile.
  size_t each = ranks.size() * (threads + 1) <= cpus.size() ? threads + 1 : threads;
  std::vector<std::vector<int>> result;
  for (int rank : world.ranks()) {
    std::vector<int> &own = result.emplace_back();
    auto place = static_cast<size_t>(rank - ranks.front());
    if (ranks.size() * each <= cpus.size())
      own.assign(cpus.begin() + place * each, cpus.begin() + (place + 1) * each);
  }
  return result;
}

Status runWorker(RankWorker &worker) {
  try {
    return worker.run();
  } catch (const std::exception &error) { // out of memory; no other is known
    return failed(error.what());
  }
}

namespace {

/// Ends the process although a rank hangs in its own code.
[[noreturn]] void leaveBehind(Session &session, const Status &reason) {
  if (session.weightWriter)
    session.weightWriter->discard();
  if (session.outputWriter)
    session.outputWriter->discard();
  if (session.checkpoints)
    session.checkpoints->folder.removePartials();
  std::fprintf(stderr, "dtc-run: error: %s\n", reason.message().c_str());
  std::_Exit(static_cast<int>(reason.code()));
}

/// Runs the ranks of this process to their end. When one fails, the others have a few seconds to
/// notice; a rank that hangs in its own code then ends with the process.
Status runRanks(Session &session, World &world) {
  auto cpus = divideCpus(session, world);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<RankWorker>> workers; // arenas live until all have ended
  std::vector<std::thread> threads;
  for (int rank : world.ranks()) {
    communicators.push_back(world.communicator(rank));
    workers.push_back(std::make_unique<RankWorker>(session, *communicators.back(),
                                                   std::move(cpus[workers.size()])));
  }
  size_t running = workers.size();
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
    world.abort(failed("cannot start a thread for rank " +
                       std::to_string(world.ranks()[threads.size()]) + ": " + error.what()));
    running -= workers.size() - threads.size();
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
  session.stepsDone = workers.front()->stepsDone();
  session.stoppedBy = workers.front()->stoppedBy();
  return world.abortReason();
}

bool wasStopped(const Session &session) {
  return session.stoppedBy != 0 && session.stepsDone < session.numSteps;
}

} // namespace

Status saveResults(Session &session) {
  if (session.weightWriter) {
    std::vector<bool> wasPut;
    for (int role : session.speakers.parameters)
      wasPut.push_back(role >= 0);
    if (Status status = session.weightWriter->finish(session.weights, wasPut); !status.isOk())
      return status;
  }
  if (session.outputWriter && !wasStopped(session))
    return session.outputWriter->commit();
  return Status::ok();
}

namespace {

/// From the opened artifact to the saved results.
Status runSession(Session &session, World &world) {
  if (Status status = openResults(session); !status.isOk())
    return status;
  Status status = runRanks(session, world);
  std::string summary = session.metrics ? session.metrics->finish() : "";
  if (session.checkpoints)
    session.checkpoints->folder.removePartials(); // what a lost rank had begun
  if (!status.isOk())
    return status;
  if (status = saveResults(session); !status.isOk())
    return status;
  if (!summary.empty())
    std::printf("%s\n", summary.c_str());
  return Status::ok();
}

/// All ranks stop after the same step: for none of them another one has failed.
Status stopOf(const Session &session) {
  if (!wasStopped(session))
    return Status::ok();
  std::string when = "stopped by signal " + std::to_string(session.stoppedBy) + " after step " +
                     std::to_string(session.stepsDone);
  if (session.checkpoints)
    return {ExitCode::Stopped, when + ", which is saved; add --resume to go on"};
  if (session.savesWeights())
    return {ExitCode::Stopped, when + ", weights saved"};
  return {static_cast<ExitCode>(128 + session.stoppedBy), when};
}

/// What must be the same for all ranks: the artifact, and what decides which steps they make.
Status checkAgreement(const Session &session, Communicator &communicator) {
  std::string job = sha256(session.package->manifestText());
  size_t artifactLength = job.size();
  const TrainingPoint &start = session.start;
  std::string command =
      std::to_string(session.options.steps.value_or(0)) + (start.shuffle ? " shuffle " : " ") +
      std::to_string(start.seed) + (session.savesWeights() ? " save " : " ") +
      (session.options.profile.empty() ? "" : "profile ") + std::to_string(start.samples);
  if (session.checkpoints)
    command += " from " + std::to_string(start.step) + " every " +
               std::to_string(session.checkpoints->every.value_or(0));
  if (session.evaluation)
    command += " evaluate " + std::to_string(session.evaluation->numBatches) + " every " +
               std::to_string(session.evaluation->every.value_or(0));
  job += sha256(command);
  std::vector<int> everyone(static_cast<size_t>(communicator.worldSize()));
  std::iota(everyone.begin(), everyone.end(), 0);
  std::string all(job.size() * everyone.size(), ' ');
  Transfer transfer{job.data(), all.data(), {static_cast<int64_t>(job.size())}};
  Group group = communicator.group(everyone);
  if (Status status = communicator.allGather(group, DType::U8, {&transfer, 1}, 0); !status.isOk())
    return status;
  for (int rank : everyone) {
    auto theirs = all.substr(static_cast<size_t>(rank) * job.size(), job.size());
    std::string who = "rank " + std::to_string(rank);
    if (theirs.substr(0, artifactLength) != all.substr(0, artifactLength))
      return {ExitCode::RankLost, who + " has another artifact than rank 0"};
    if (theirs != all.substr(0, job.size()))
      return {ExitCode::RankLost, who + " has another command line or other data than rank 0"};
  }
  return Status::ok();
}

/// This process is one rank. The others are met first: what goes wrong later ends them too.
Status runAsProcess(const RunOptions &options, std::chrono::milliseconds limit) {
  Result<std::unique_ptr<ProcessWorld>> connected = ProcessWorld::connect(*options.launch, limit);
  if (!connected)
    return connected.status();
  ProcessWorld &world = **connected;
  std::unique_ptr<Session> session;
  auto work = [&]() -> Status {
    Result<std::unique_ptr<Session>> opened = openSession(options);
    if (!opened)
      return opened.status();
    session = std::move(*opened);
    auto agreement = world.communicator(options.launch->rank)->forQueue("agreement");
    if (Status status = checkAgreement(*session, *agreement); !status.isOk())
      return status;
    return runSession(*session, world);
  };
  Status status = world.close(work());
  return status.isOk() ? stopOf(*session) : status;
}

} // namespace

Status run(const RunOptions &options) {
  auto limit = std::chrono::milliseconds(static_cast<int64_t>(options.timeoutSeconds * 1000));
  StopOnSignal stopping;
  if (options.launch)
    return runAsProcess(options, limit);
  Result<std::unique_ptr<Session>> session = openSession(options);
  if (!session)
    return session.status();
  ThreadWorld world(static_cast<int>((*session)->manifest().worldSize), limit);
  Status status = runSession(**session, world);
  return status.isOk() ? stopOf(**session) : status;
}

} // namespace dtc::rt
