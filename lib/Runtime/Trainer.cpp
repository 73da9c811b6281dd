#include "dtc-rt/Trainer.h"

#include "RankRequests.h"
#include "Session.h"

#include "dtc-io/Environment.h"
#include "dtc-rt/Files/OutputConflicts.h"
#include "dtc-rt/Program/MappedFile.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <cstring>
#include <system_error>
#include <thread>

namespace dtc::rt {

/// How long ranks may take to notice that another one has failed.
static constexpr auto kGrace = std::chrono::seconds(5);

struct Trainer::Ranks {
  explicit Ranks(std::unique_ptr<Session> opened)
      : session(std::move(opened)), requests(session->manifest().worldSize),
        world(static_cast<int>(session->manifest().worldSize), session->options.timeLimit()) {
    session->requests = &requests;
  }

  Status start();
  Status ask(RankRequests::Request request);
  Status write();
  /// Takes no more requests. False where a rank hangs in its own code, likewise below.
  bool stop();
  bool end();

  std::unique_ptr<Session> session;
  RankRequests requests;
  ThreadWorld world;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<RankWorker>> workers; ///< arenas live until all have ended
  std::vector<std::thread> threads;
  bool hasEnded = false; ///< a request has failed
};

Status Trainer::Ranks::start() {
  auto cpus = divideCpus(*session, world);
  for (int rank : world.ranks()) {
    communicators.push_back(world.communicator(rank));
    workers.push_back(std::make_unique<RankWorker>(*session, *communicators.back(),
                                                   std::move(cpus[workers.size()])));
  }
  auto work = [this](RankWorker *worker) {
    Status status = runWorker(*worker);
    if (!status.isOk())
      world.abort(status);
    requests.leave(!status.isOk());
  };
  threads.reserve(workers.size());
  try {
    for (auto &worker : workers)
      threads.emplace_back(work, worker.get());
  } catch (const std::system_error &error) {
    world.abort(failed("cannot start a thread for rank " + std::to_string(threads.size()) + ": " +
                       error.what()));
    for (size_t rank = threads.size(); rank < workers.size(); ++rank)
      requests.leave(/*hasFailed=*/true);
  }
  return requests.await() ? Status::ok() : world.abortReason();
}

/// When a rank has failed, no other one is at work afterwards.
Status Trainer::Ranks::ask(RankRequests::Request request) {
  if (requests.ask(request))
    return Status::ok();
  stop();
  Status reason = world.abortReason();
  if (std::exchange(hasEnded, true))
    return {reason.error().category, "the program has ended before: " + reason.message()};
  return reason;
}

bool Trainer::Ranks::stop() {
  requests.ask(RankRequests::Request::End);
  return requests.awaitEnd(kGrace);
}

/// Ends what the ranks have written to the session's weight writer.
Status Trainer::Ranks::write() {
  Status status = ask(RankRequests::Request::SaveWeights);
  if (status.isOk())
    status = saveResults(*session);
  session->weightWriter.reset();
  return status;
}

bool Trainer::Ranks::end() {
  if (!stop())
    return false;
  for (std::thread &thread : threads)
    thread.join();
  return true;
}

Trainer::Trainer(std::unique_ptr<Ranks> ranks) : ranks(std::move(ranks)) {}

/// What a rank that hangs is using must stay.
Trainer::~Trainer() {
  if (ranks->end())
    return;
  for (std::thread &thread : ranks->threads)
    thread.detach();
  static_cast<void>(ranks.release());
}

Result<std::unique_ptr<Trainer>> Trainer::open(const std::string &artifact,
                                               const Options &options) {
  if (std::string wrong = io::findWrongVariable(); !wrong.empty())
    return Status(ErrorCategory::Usage, wrong);
  RunOptions asked;
  asked.artifact = artifact;
  asked.seed = options.seed;
  asked.timeoutSeconds = options.timeoutSeconds;
  asked.hasData = false;
  Result<std::unique_ptr<Session>> session = openSession(asked);
  if (!session)
    return session.status();
  std::unique_ptr<Trainer> trainer(new Trainer(std::make_unique<Ranks>(std::move(*session))));
  if (Status status = trainer->ranks->start(); !status.isOk())
    return status;
  return trainer;
}

const Manifest &Trainer::manifest() const { return ranks->session->manifest(); }

int64_t Trainer::stepsDone() const {
  return ranks->session->isInference() ? 0 : ranks->session->lastStep.step;
}

static Status checkTrains(const Session &session) {
  if (!session.isInference())
    return Status::ok();
  return {ErrorCategory::Usage, session.options.artifact +
                                    ": computes outputs alone (--loss none): "
                                    "forward gives them"};
}

/// Ends no rank for samples that the caller can do without.
static Status checkSamples(const DataSet &data, const SampleOrder &order, int64_t from,
                           int64_t count) {
  std::vector<int64_t> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    samples[i] = order.at(from + i);
  return data.check(samples);
}

Status Trainer::runOn(const std::map<std::string, Array> &batch) {
  Result<DataSet> samples = DataSet::ofBatch(batch, manifest());
  if (!samples)
    return samples.status();
  SampleOrder order(manifest().globalBatch, /*shuffled=*/false, 0);
  if (Status status = checkSamples(*samples, order, 0, manifest().globalBatch); !status.isOk())
    return status;
  Session &session = *ranks->session;
  DataSet data = std::exchange(session.data, std::move(*samples));
  std::swap(session.order, order);
  Status status = ranks->ask(RankRequests::Request::Step);
  session.data = std::move(data);
  session.order = order;
  return status;
}

Result<StepMetrics> Trainer::step(const std::map<std::string, Array> &batch) {
  if (Status status = checkTrains(*ranks->session); !status.isOk())
    return status;
  if (Status status = runOn(batch); !status.isOk())
    return status;
  return ranks->session->lastStep;
}

Status Trainer::forward(const std::map<std::string, Array> &batch,
                        const std::vector<char *> &places) {
  Session &session = *ranks->session;
  if (!session.isInference())
    return {ErrorCategory::Usage, session.options.artifact +
                                      ": trains; outputs are those of artifacts without a loss "
                                      "(--loss none)"};
  session.outputs = {places, session.lastStep.step, manifest().globalBatch};
  return runOn(batch);
}

Status Trainer::setData(const std::string &path, bool shuffle) {
  Result<DataSet> data = DataSet::open(path, manifest());
  if (!data)
    return data.status();
  Session &session = *ranks->session;
  session.order = SampleOrder(data->numSamples(), shuffle, session.start.seed);
  session.data = std::move(*data);
  return Status::ok();
}

int64_t Trainer::numSamples() const { return ranks->session->data.numSamples(); }

Result<StepMetrics> Trainer::step() {
  if (Status status = checkTrains(*ranks->session); !status.isOk())
    return status;
  if (numSamples() == 0)
    return Status(ErrorCategory::Usage, "a step without a batch needs a data set");
  const Session &session = *ranks->session;
  if (Status status =
          checkSamples(session.data, session.order, session.pointAfter(stepsDone()).position,
                       manifest().globalBatch);
      !status.isOk())
    return status;
  if (Status status = ranks->ask(RankRequests::Request::Step); !status.isOk())
    return status;
  return ranks->session->lastStep;
}

Result<double> Trainer::evaluate(Result<DataSet> samples, const std::string &name) {
  if (!samples)
    return samples.status();
  const int64_t count = samples->numSamples() / manifest().globalBatch * manifest().globalBatch;
  const SampleOrder order(count, /*shuffled=*/false, 0);
  if (Status status = checkSamples(*samples, order, 0, count); !status.isOk())
    return status;
  Session &session = *ranks->session;
  auto evaluation = Evaluation::of(std::move(*samples), name, session.programs, manifest());
  if (!evaluation)
    return evaluation.status();
  session.evaluation.emplace(std::move(*evaluation));
  Status status = ranks->ask(RankRequests::Request::Evaluate);
  session.evaluation.reset();
  if (!status.isOk())
    return status;
  return session.evalLoss;
}

Result<double> Trainer::evaluate(const std::string &path) {
  return evaluate(DataSet::open(path, manifest()), path);
}

Result<double> Trainer::evaluate(const std::map<std::string, Array> &batch) {
  return evaluate(DataSet::ofBatch(batch, manifest()), "the batch");
}

Status Trainer::readWeights(const std::vector<char *> &places) {
  std::vector<char *> all = places;
  all.resize(manifest().parameters.size(), nullptr); // those of loss scaling aren't asked for
  ranks->session->weightWriter.emplace(WeightWriter::into(std::move(all), manifest()));
  return ranks->write();
}

Status Trainer::saveWeights(const std::string &path) {
  NamedFile inputs[] = {{"the artifact", ranks->session->options.artifact}};
  NamedFile outputs[] = {{"the weights", path}};
  if (Status status = checkOutputConflicts(inputs, outputs); !status.isOk())
    return status;
  Result<WeightWriter> writer = WeightWriter::create(path, manifest());
  if (!writer)
    return writer.status();
  ranks->session->weightWriter.emplace(std::move(*writer));
  return ranks->write();
}

Status Trainer::saveArtifact(const std::string &path) {
  const Package &package = *ranks->session->package;
  NamedFile inputs[] = {{"the artifact", package.path()}};
  NamedFile outputs[] = {{"the copy", path}};
  if (Status status = checkOutputConflicts(inputs, outputs); !status.isOk())
    return status;
  const std::span<const char> bytes = package.bytes();
  Result<OutputFile> copy = OutputFile::create(path, bytes.size());
  if (!copy)
    return copy.status();
  std::memcpy(copy->data(), bytes.data(), bytes.size());
  return copy->commit();
}

} // namespace dtc::rt
