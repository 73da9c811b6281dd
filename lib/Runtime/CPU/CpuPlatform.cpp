#include "dtc-rt/CPU/CpuPlatform.h"

#include "CpuOperations.h"

#include "dtc-io/Environment.h"
#include "dtc-rt/CPU/Arena.h"

#include <algorithm>

namespace dtc::rt {
namespace {

class CpuMemory : public Memory {
public:
  explicit CpuMemory(Arena arena) : arena(std::move(arena)) {}
  Address base() const override { return arena.data(); }
  uint64_t size() const override { return arena.size(); }

private:
  Arena arena;
};

class CpuDevice : public Device {
public:
  CpuDevice(Communicator &communicator, const DeviceOptions &options, CodeObject code,
            CollectiveMoment moment, RankProfile *profile)
      : communicator(communicator), progress(communicator), team(options.threads, options.cpus),
        code(std::move(code)), moment(moment), profile(profile) {}

  Result<std::unique_ptr<Memory>> allocate(Space, uint64_t bytes) override {
    Result<Arena> arena = Arena::create(bytes);
    if (!arena)
      return arena.status();
    return std::unique_ptr<Memory>(std::make_unique<CpuMemory>(std::move(*arena)));
  }

  Status write(Address target, uint64_t, const std::function<void(char *)> &fill) override {
    fill(target);
    return Status::ok();
  }
  Status read(Address source, uint64_t, const std::function<void(const char *)> &use) override {
    use(source);
    return Status::ok();
  }

  Result<std::vector<std::unique_ptr<Queue>>>
  createQueues(std::span<const QueueSpec> specs) override {
    bool hasThreads = std::ranges::any_of(specs, [&](const QueueSpec &spec) {
      return &spec != &specs[0] && (!choosesMoment(spec) || moment == CollectiveMoment::Thread);
    });
    std::vector<std::unique_ptr<Queue>> queues;
    for (const QueueSpec &spec : specs) {
      auto end = communicator.forQueue(spec.name);
      if (queues.empty() && !hasThreads)
        queues.push_back(std::make_unique<InlineQueue>(progress, team, std::move(end)));
      else if (queues.empty() || !choosesMoment(spec))
        queues.push_back(threadQueue(spec, std::move(end)));
      else
        queues.push_back(queueOfMoment(static_cast<CpuQueue &>(*queues[0]), spec, std::move(end)));
    }
    for (size_t i = 0; profile && i < specs.size(); ++i)
      static_cast<CpuQueue &>(*queues[i]).setProfile(profile->addQueue(specs[i].name));
    return queues;
  }

  std::unique_ptr<Event> createEvent() override { return std::make_unique<CpuEvent>(); }

  Status await(Event &event) override {
    auto &own = static_cast<CpuEvent &>(event);
    if (own.delayed)
      own.delayed->bring(own);
    progress.await(own, own.issued);
    return progress.status();
  }

  Result<std::unique_ptr<Operation>> prepare(Queue &queue, const OperationSpec &spec,
                                             const std::string &name) override {
    auto &own = static_cast<CpuQueue &>(queue);
    MadeOperation made = std::visit([&](const auto &kind) { return make(own, kind, name); }, spec);
    if (profile && made)
      static_cast<CpuOperation &>(**made).setProfiled(profile->addOperation(kindOf(spec), name));
    return made;
  }

  Status status() const override { return progress.status(); }

private:
  /// What only moves data keeps one processor busy.
  std::unique_ptr<Queue> threadQueue(const QueueSpec &spec, std::unique_ptr<Communicator> end) {
    int threads = spec.kind == QueueKind::Compute ? team.size() : 1;
    return std::make_unique<ThreadQueue>(progress, threads, std::move(end));
  }

  /// Whether what is started may be carried out at its start, at its wait or beside both.
  static bool choosesMoment(const QueueSpec &spec) {
    return spec.kind == QueueKind::Collective || spec.kind == QueueKind::Copy;
  }

  std::unique_ptr<Queue> queueOfMoment(CpuQueue &compute, const QueueSpec &spec,
                                       std::unique_ptr<Communicator> end) {
    switch (moment) {
    case CollectiveMoment::Start:
      return std::make_unique<JoinedQueue>(compute, std::move(end));
    case CollectiveMoment::Wait:
      return std::make_unique<DelayedQueue>(progress, compute, std::move(end));
    case CollectiveMoment::Thread:
      break;
    }
    return threadQueue(spec, std::move(end));
  }

  MadeOperation make(CpuQueue &queue, const LaunchSpec &spec, const std::string &) {
    return makeLaunch(queue, spec, code);
  }
  MadeOperation make(CpuQueue &queue, const MatmulSpec &spec, const std::string &) {
    return makeMatmul(queue, spec);
  }
  MadeOperation make(CpuQueue &queue, const ConvSpec &spec, const std::string &) {
    return makeConv(queue, spec);
  }
  MadeOperation make(CpuQueue &, const AttentionSpec &, const std::string &) {
    return Status(ErrorCategory::InputRefused,
                  "no library of a processor computes attention as one call");
  }
  MadeOperation make(CpuQueue &queue, const CollectiveSpec &spec, const std::string &name) {
    return makeCollective(queue, spec, name);
  }
  MadeOperation make(CpuQueue &queue, const MessageSpec &spec, const std::string &name) {
    return makeMessage(queue, spec, name);
  }
  MadeOperation make(CpuQueue &queue, const CopySpec &spec, const std::string &) {
    return makeCopy(queue, spec);
  }
  MadeOperation make(CpuQueue &queue, const ZeroSpec &spec, const std::string &) {
    return makeZero(queue, spec);
  }
  MadeOperation make(CpuQueue &queue, const ConstantSpec &spec, const std::string &) {
    return makeConstant(queue, spec);
  }

  Communicator &communicator;
  RankProgress progress;
  ThreadTeam team;
  CodeObject code;
  CollectiveMoment moment;
  RankProfile *profile; ///< null: nothing is noted
};

class CpuPlatform : public Platform {
public:
  explicit CpuPlatform(std::optional<CollectiveMoment> moment) : moment(moment) {}

  Status load(std::span<const CodeFile> files) override {
    if (files.size() > 1)
      return refused("has more than one file of code: " + std::to_string(files.size()));
    if (files.empty()) // a program of library calls alone
      return Status::ok();
    Result<CodeObject> object = CodeObject::load(files.front().bytes);
    if (!object)
      return std::move(object.status()).in(files.front().name);
    code = *object;
    return Status::ok();
  }

  Result<std::unique_ptr<Device>> createDevice(Communicator &communicator,
                                               const DeviceOptions &options) override {
    bool hasSpare = options.cpus.size() > static_cast<size_t>(options.threads);
    CollectiveMoment usual = hasSpare ? CollectiveMoment::Thread : CollectiveMoment::Start;
    return std::unique_ptr<Device>(std::make_unique<CpuDevice>(
        communicator, options, code, moment.value_or(usual), options.profile));
  }

private:
  std::optional<CollectiveMoment> moment;
  CodeObject code;
};

} // namespace

std::unique_ptr<Platform> createCpuPlatform(std::optional<CollectiveMoment> moment) {
  return std::make_unique<CpuPlatform>(moment);
}

static std::optional<CollectiveMoment> momentFromEnvironment() {
  const std::string name = io::valueOf(io::Variable::Collectives);
  for (auto [known, moment] : {std::pair("start", CollectiveMoment::Start),
                               {"wait", CollectiveMoment::Wait},
                               {"thread", CollectiveMoment::Thread}})
    if (name == known)
      return moment;
  return std::nullopt;
}

Result<std::unique_ptr<Platform>> openCpuPlatform(const Manifest &manifest, int64_t) {
  if (Status status = checkProcessor(manifest); !status.isOk())
    return status;
  return createCpuPlatform(momentFromEnvironment());
}

} // namespace dtc::rt
