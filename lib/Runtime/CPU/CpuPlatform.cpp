#include "dtc-rt/CPU/CpuPlatform.h"

#include "CpuOperations.h"

#include "dtc-rt/CPU/Arena.h"

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
  CpuDevice(Communicator &communicator, const DeviceOptions &options, CodeObject code)
      : communicator(communicator), progress(communicator), team(options.threads, options.cpus),
        code(std::move(code)) {}

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
    std::vector<std::unique_ptr<Queue>> queues;
    for (const QueueSpec &spec : specs) {
      auto end = communicator.forQueue(spec.name);
      if (specs.size() == 1) {
        queues.push_back(std::make_unique<InlineQueue>(progress, team, std::move(end)));
        break;
      }
      // What only moves data keeps one processor busy.
      int threads = spec.kind == QueueKind::Compute ? team.size() : 1;
      queues.push_back(std::make_unique<ThreadQueue>(progress, threads, std::move(end)));
    }
    return queues;
  }

  std::unique_ptr<Event> createEvent() override { return std::make_unique<CpuEvent>(); }

  Status await(Event &event) override {
    auto &own = static_cast<CpuEvent &>(event);
    progress.await(own, own.issued);
    return progress.status();
  }

  Result<std::unique_ptr<Operation>> prepare(Queue &queue, const OperationSpec &spec,
                                             const std::string &name) override {
    auto &own = static_cast<CpuQueue &>(queue);
    return std::visit([&](const auto &kind) { return make(own, kind, name); }, spec);
  }

  Status status() const override { return progress.status(); }

private:
  MadeOperation make(CpuQueue &queue, const LaunchSpec &spec, const std::string &) {
    return makeLaunch(queue, spec, code);
  }
  MadeOperation make(CpuQueue &queue, const MatmulSpec &spec, const std::string &) {
    return makeMatmul(queue, spec);
  }
  MadeOperation make(CpuQueue &queue, const ConvSpec &spec, const std::string &) {
    return makeConv(queue, spec);
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
};

class CpuPlatform : public Platform {
public:
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
    return std::unique_ptr<Device>(std::make_unique<CpuDevice>(communicator, options, code));
  }

private:
  CodeObject code;
};

} // namespace

std::unique_ptr<Platform> createCpuPlatform() { return std::make_unique<CpuPlatform>(); }

Result<std::unique_ptr<Platform>> openCpuPlatform(const Manifest &manifest, int64_t) {
  if (Status status = checkProcessor(manifest); !status.isOk())
    return status;
  return createCpuPlatform();
}

} // namespace dtc::rt
