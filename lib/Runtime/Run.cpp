#include "dtc-rt/Run.h"
#include "EndWatch.h"
#include "Processes/EndSignals.h"
#include "Session.h"

#include "dtc-io/ExitCodes.h"
#include "dtc-io/PrintableLine.h"
#include "dtc-io/SuddenEnd.h"
#include "dtc-rt/CPU/ThreadTeam.h"
#include "dtc-rt/Processes/LocalProcesses.h"
#include "dtc-rt/Processes/ProcessCommunicator.h"
#include "dtc-rt/Program/Sha256.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace dtc::rt {

std::atomic<int> stopSignal{0};

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

/// As where a script that has ended is started again.
void sayNoStep(const Session &session) {
  if (session.checkpoints && session.checkpoints->resumed && session.start.step >= session.numSteps)
    std::fprintf(
        stderr,
        "dtc-run: note: no step is made: %s is of step %lld, and this run ends with step %lld\n",
        io::printableLine(session.checkpoints->resumed->path()).c_str(),
        static_cast<long long>(session.start.step), static_cast<long long>(session.numSteps));
}

Status openResults(Session &session, EndWatch &watch) {
  const Manifest &manifest = session.manifest();
  int64_t epoch = (session.data.numSamples() + manifest.globalBatch - 1) / manifest.globalBatch;
  session.numSteps = session.options.steps.value_or(epoch);
  if (session.options.launch && session.options.launch->rank != 0)
    return Status::ok(); // results are rank 0's
  sayRateEnds(manifest.learningRate, session.numSteps);
  sayNoStep(session);
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
  MetricsSetup setup{
      .globalBatch = manifest.globalBatch,
      .sequence = manifest.sequence,
      .predictedStepTime = manifest.predictedStepTime,
      .stepsBefore = session.start.step,
      .lastStep = session.numSteps,
  };
  for (const ProgramView &program : session.programs) {
    setup.arenaBytes = std::max(setup.arenaBytes, program->arena_bytes());
    setup.hostBytes = std::max(setup.hostBytes, program->host_arena_bytes());
  }
  Result<MetricsReporter> metrics = MetricsReporter::create(setup, session.options.log);
  if (!metrics)
    return metrics.status();
  watch.change([&] { session.metrics.emplace(std::move(*metrics)); });
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

/// Threads of the run may be at work on all of it.
void discardResults(const Session &session) {
  io::removeUnfinishedFiles();
  if (session.checkpoints)
    session.checkpoints->folder.abandon();
  if (session.metrics)
    session.metrics->discardEmptyLog();
}

/// Ends the process although a rank hangs, or what is left of it. There is no session before it is
/// opened. Where files can't be removed either, they are left.
[[noreturn]] void leaveBehind(const Session *session, const Status &reason) {
  if (std::optional<ParentLink> parent = ParentLink::find())
    parent->tell(reason);
  else
    std::fprintf(stderr, "dtc-run: error: %s\n", io::printableLine(reason.message()).c_str());
  constexpr std::chrono::seconds kMost(1);
  std::future<void> discarding;
  if (session)
    discarding = std::async(std::launch::async, [session] { discardResults(*session); });
  if (discarding.valid())
    discarding.wait_for(kMost);
  std::_Exit(io::exitCodeOf(reason.error().category));
}

/// Runs the ranks of this process to their end.
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
  changed.wait(lock, [&] { return running == 0; });
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
Status runSession(Session &session, World &world, EndWatch &watch) {
  if (Status status = openResults(session, watch); !status.isOk())
    return status;
  Status status = runRanks(session, world);
  std::string summary = session.metrics ? session.metrics->finish() : "";
  if (session.checkpoints)
    session.checkpoints->folder.removePartials(); // what a lost rank had begun
  if (!status.isOk())
    return status;
  if (session.metrics)
    session.metrics->closeLog();
  if (status = saveResults(session); !status.isOk())
    return status;
  if (!summary.empty())
    std::printf("%s\n", summary.c_str());
  return Status::ok();
}

/// A terminal that is gone asks for what SIGTERM does.
ErrorCategory whyStopped(int signal) {
  if (signal == SIGINT)
    return ErrorCategory::Interrupted;
  return signal == SIGUSR1 ? ErrorCategory::Notified : ErrorCategory::Terminated;
}

/// When the first signal came, by CLOCK_MONOTONIC in nanoseconds; 0: none has.
std::atomic<int64_t> firstSignal{0};

/// A second signal ends the process at once. One that follows within a second is the same request:
/// a launcher passes on what its ranks are sent, too, as when a cluster signals all processes.
void askToStop(int number) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = time.tv_sec * 1'000'000'000 + time.tv_nsec;
  int64_t first = 0;
  if (firstSignal.compare_exchange_strong(first, now)) {
    stopSignal.store(number);
  } else if (now - first > 1'000'000'000) {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
}

/// All ranks stop after the same step: for none of them another one has failed.
Status stopOf(const Session &session) {
  if (!wasStopped(session))
    return Status::ok();
  std::string when = "stopped by signal " + std::to_string(session.stoppedBy);
  if (session.checkpoints && session.stepsDone == 0)
    return {ErrorCategory::Saved, when + " before the first step; add --resume to begin again"};
  when += " after step " + std::to_string(session.stepsDone);
  if (session.checkpoints)
    return {ErrorCategory::Saved, when + ", which is saved; add --resume to go on"};
  if (session.savesWeights())
    return {ErrorCategory::Saved, when + ", weights saved"};
  return {whyStopped(session.stoppedBy), when};
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
  RankGroup group = communicator.group(everyone);
  if (Status status = communicator.allGather(group, DType::U8, {&transfer, 1}, 0); !status.isOk())
    return status;
  for (int rank : everyone) {
    auto theirs = all.substr(static_cast<size_t>(rank) * job.size(), job.size());
    std::string who = "rank " + std::to_string(rank);
    if (theirs.substr(0, artifactLength) != all.substr(0, artifactLength))
      return {ErrorCategory::RankLost, who + " has another artifact than rank 0"};
    if (theirs != all.substr(0, job.size()))
      return {ErrorCategory::RankLost, who + " has another command line or other data than rank 0"};
  }
  return Status::ok();
}

/// Where ranks haven't met. Nothing is lost where that was asked for.
Status notMet(const RunOptions &options, const Status &status) {
  const int signal = stopSignal.load();
  if (signal == 0)
    return status;
  if (!options.checkpointDir.empty())
    return {ErrorCategory::Saved, status.message() + "; add --resume to begin again"};
  return {whyStopped(signal), status.message()};
}

/// This process is one rank. The others are met first: what goes wrong later ends them too.
Status runAsProcess(const RunOptions &options) {
  auto connected =
      ProcessWorld::connect(*options.launch, options.timeLimit(), [] { return stopSignal.load(); });
  if (!connected)
    return notMet(options, connected.status());
  ProcessWorld &world = **connected;
  std::unique_ptr<Session> session;
  EndWatch watch(world, [&](const Status &reason) { leaveBehind(session.get(), reason); });
  auto work = [&]() -> Status {
    Result<std::unique_ptr<Session>> opened = openSession(options);
    if (!opened)
      return opened.status();
    watch.change([&] { session = std::move(*opened); });
    auto agreement = world.communicator(options.launch->rank)->forQueue("agreement");
    if (Status status = checkAgreement(*session, *agreement); !status.isOk())
      return status;
    return runSession(*session, world, watch);
  };
  Status status = world.close(work());
  return status.isOk() ? stopOf(*session) : status;
}

} // namespace

Status run(const RunOptions &options) {
  stopSignal.store(0);
  firstSignal.store(0);
  EndSignals stopping(askToStop, SA_RESTART);
  if (options.launch) {
    EndSignals::unblock();
    return runAsProcess(options);
  }
  Result<std::unique_ptr<Session>> session = openSession(options);
  if (!session)
    return session.status();
  ThreadWorld world(static_cast<int>((*session)->manifest().worldSize), options.timeLimit());
  EndWatch watch(world, [&](const Status &reason) { leaveBehind(session->get(), reason); });
  Status status = runSession(**session, world, watch);
  return status.isOk() ? stopOf(**session) : status;
}

} // namespace dtc::rt
