#include "dtc-rt/CUDA/CudaPlatform.h"

#include "OperationTimer.h"
#include "ProcessLedger.h"
#include "RankMeeting.h"
#include "SharedGpu.h"
#include "Staging.h"

#include "dtc-io/UserCache.h"

#include <cstdlib>
#include <mutex>

namespace dtc::rt {
namespace cuda {
namespace {

class CudaDevice : public Device {
public:
  CudaDevice(std::unique_ptr<Gpu> gpu, std::unique_ptr<KernelModule> kernels,
             Communicator &communicator, std::shared_ptr<LedgerBook> ledgers, Libraries &libraries,
             RankProfile *profile, AlgorithmCache *algorithms, uint64_t contextBytes)
      : gpu(std::move(gpu)), kernels(std::move(kernels)), communicator(communicator),
        ledgers(std::move(ledgers)),
        progress(*this->gpu, communicator, *this->ledgers, libraries.nccl),
        products(libraries.cublasLt), networks(libraries.cudnn), staging(*this->gpu, progress),
        profile(profile), contextBytes(contextBytes) {
    if (algorithms)
      tuner.emplace(*this->gpu, progress, products, *algorithms);
  }

  ~CudaDevice() override { gpu->makeCurrent(); }

  Result<std::unique_ptr<Memory>> allocate(Space space, uint64_t bytes) override {
    return space == Space::Host ? gpu->allocateHost(bytes) : gpu->allocateDevice(bytes);
  }

  Status write(Address target, uint64_t bytes, const std::function<void(char *)> &fill) override {
    return staging.write(target, bytes, fill);
  }
  Status read(Address source, uint64_t bytes,
              const std::function<void(const char *)> &use) override {
    return staging.read(source, bytes, use);
  }

  bool isFarBehind() const override { return true; }

  Result<std::vector<std::unique_ptr<Queue>>>
  createQueues(std::span<const QueueSpec> specs) override {
    std::vector<std::unique_ptr<Queue>> queues;
    for (const QueueSpec &spec : specs) {
      auto queue = CudaQueue::create(*gpu, progress, spec);
      if (!queue)
        return queue.status();
      if (profile) {
        auto timer = QueueTimer::create(**queue, profile->addQueue(spec.name));
        if (!timer)
          return timer.status();
        timers[queue->get()] = std::move(*timer);
      }
      queues.push_back(std::move(*queue));
    }
    return queues;
  }

  std::unique_ptr<Event> createEvent() override {
    CUevent event = nullptr;
    const Driver &driver = gpu->driver;
    Status status = DTC_CUDA_CALL(driver, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    if (!status.isOk())
      (void)progress.fail(std::move(status));
    return std::make_unique<CudaEvent>(driver, event);
  }

  Status await(Event &event) override {
    DTC_CUDA_TRY(progress.await([&]() -> Result<bool> {
      return static_cast<CudaEvent &>(event).state->hasHappened("a kernel or copy of the step");
    }));
    SharedTurn turn;
    for (auto &[queue, timer] : timers)
      DTC_CUDA_TRY(timer->collect());
    return Status::ok();
  }

  Result<std::unique_ptr<Operation>> record(Queue &queue,
                                            const std::function<Status()> &issue) override {
    auto &own = static_cast<CudaQueue &>(queue);
    if (profile || own.issuer) // events within a graph have no times, and its branches no order
      return std::unique_ptr<Operation>();
    return recordGraph(own, issue);
  }

  Result<std::unique_ptr<Operation>> prepare(Queue &queue, const OperationSpec &spec,
                                             const std::string &name) override {
    auto &own = static_cast<CudaQueue &>(queue);
    MadeOperation made = std::visit([&](const auto &kind) { return make(own, kind, name); }, spec);
    if (made && profile)
      made = timed(std::move(*made), *timers.at(&own), profile->addOperation(kindOf(spec), name));
    return made && own.issuer ? issuedInTurn(own, std::move(*made)) : std::move(made);
  }

  Status finishPreparing() override {
    if (!progress.groupKeys().empty() && !sharesGpu())
      if (Result<uint64_t> used = gpu->usedBytes())
        usedBefore = *used;
    DTC_CUDA_TRY(meetRanks(communicator, progress, tuner ? &*tuner : nullptr));
    return connectRanks();
  }

  Status status() const override { return progress.status(); }

  std::optional<DeviceOverhead> overhead() const override {
    DeviceOverhead overhead{contextBytes};
    if (usedBefore)
      if (Result<uint64_t> used = gpu->usedBytes(); used && *used > *usedBefore)
        overhead.communicators = *used - *usedBefore;
    return overhead;
  }

private:
  Status connectRanks() {
    if (sharesGpu() || progress.groupKeys().empty())
      return Status::ok();
    auto elements = gpu->allocateDevice(2 * sizeof(float));
    if (!elements)
      return elements.status();
    auto queue = CudaQueue::create(*gpu, progress, {"connecting", QueueKind::Collective});
    if (!queue)
      return queue.status();
    DTC_CUDA_TRY(progress.connectGroups((*elements)->base(), (*queue)->stream));
    return (*queue)->synchronize();
  }

  MadeOperation make(CudaQueue &queue, const LaunchSpec &spec, const std::string &) {
    return makeLaunch(queue, spec, *kernels);
  }
  MadeOperation make(CudaQueue &queue, const MatmulSpec &spec, const std::string &) {
    return makeMatmul(queue, spec, products, tuner ? &*tuner : nullptr);
  }
  MadeOperation make(CudaQueue &queue, const ConvSpec &spec, const std::string &) {
    return makeConv(queue, spec, networks);
  }
  MadeOperation make(CudaQueue &queue, const AttentionSpec &spec, const std::string &) {
    return makeAttention(queue, spec, networks);
  }
  MadeOperation make(CudaQueue &queue, const CollectiveSpec &spec, const std::string &name) {
    return makeCollective(queue, spec, communicator.rank(), name);
  }
  MadeOperation make(CudaQueue &queue, const MessageSpec &spec, const std::string &name) {
    return makeMessage(queue, spec, communicator.rank(), name);
  }
  MadeOperation make(CudaQueue &queue, const CopySpec &spec, const std::string &) {
    return makeCopy(queue, spec);
  }
  MadeOperation make(CudaQueue &queue, const ZeroSpec &spec, const std::string &) {
    return makeZero(queue, spec);
  }
  MadeOperation make(CudaQueue &queue, const ConstantSpec &spec, const std::string &) {
    return makeConstant(queue, spec);
  }

  std::unique_ptr<Gpu> gpu; ///< destroyed last: the others use it
  std::unique_ptr<KernelModule> kernels;
  Communicator &communicator;
  std::shared_ptr<LedgerBook> ledgers;
  RankProgress progress;
  Products products;
  Networks networks;
  std::optional<ProductTuner> tuner; ///< where it is asked for
  Staging staging;
  RankProfile *profile;                                      ///< null: nothing is noted
  std::map<CudaQueue *, std::unique_ptr<QueueTimer>> timers; ///< where it is noted
  uint64_t contextBytes;
  std::optional<uint64_t> usedBefore; ///< of the GPU's memory, before communicators are made
};

class CudaPlatform : public Platform {
public:
  Status load(std::span<const CodeFile> files) override {
    code.assign(files.begin(), files.end());
    return checkCode(files);
  }

  /// There must be a GPU for each rank of this process, unless they share one: NCCL takes one rank
  /// for each.
  Status checkMachine(int64_t ranksHere) {
    Result<int> count = countGpus();
    if (!count)
      return count.status();
    if (*count >= (isShared ? 1 : ranksHere))
      return Status::ok();
    if (*count == 0)
      return {ErrorCategory::NoFit, "this machine has no GPU that CUDA's driver can use"};
    return {ErrorCategory::NoFit,
            "has more ranks than this machine has GPUs, " + std::to_string(*count) +
                " (compile with fewer --devices): " + std::to_string(ranksHere)};
  }

  Result<std::unique_ptr<Device>> createDevice(Communicator &communicator,
                                               const DeviceOptions &options) override {
    Result<int> ordinal = options.localProcess
                              ? gpuOfProcess(communicator.rank(), *options.localProcess)
                              : gpuOfThread(communicator);
    if (!ordinal)
      return ordinal.status();
    if (isShared && options.autotunes)
      return Status(ErrorCategory::Usage, "--autotune needs a GPU for each rank (DTC_SHARE_GPU)");
    Result<const Driver *> driver = libraries.driver.get();
    if (isShared)
      libraries.nccl.provide([&] { return sharedGpuCalls(**driver); });
    Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, *ordinal);
    if (!gpu)
      return gpu.status();
    Result<uint64_t> contextBytes = takenBy(**gpu, *ordinal);
    if (!contextBytes)
      return contextBytes.status();
    Result<std::unique_ptr<KernelModule>> kernels = KernelModule::load(**gpu, code);
    if (!kernels)
      return kernels.status();
    std::shared_ptr<LedgerBook> ledgers = book;
    if (options.localProcess)
      ledgers = std::make_shared<ProcessLedgerBook>(communicator);
    return std::unique_ptr<Device>(std::make_unique<CudaDevice>(
        std::move(*gpu), std::move(*kernels), communicator, std::move(ledgers), libraries,
        options.profile, options.autotunes ? &algorithms : nullptr, *contextBytes));
  }

private:
  Result<int> countGpus() {
    Result<const Driver *> driver = libraries.driver.get();
    return driver ? Gpu::count(**driver) : Result<int>(driver.status());
  }

  /// What was taken of a GPU when its context was there. Ranks that share it have one context, and
  /// none of them has memory before it was here.
  Result<uint64_t> takenBy(const Gpu &gpu, int ordinal) {
    Result<uint64_t> used = gpu.usedBytes();
    if (!used)
      return used;
    std::lock_guard lock(mutex);
    return contexts.try_emplace(ordinal, *used).first->second;
  }

  Result<int> gpuOfThread(const Communicator &communicator) {
    if (Status status = checkMachine(communicator.worldSize()); !status.isOk())
      return status;
    return isShared ? 0 : communicator.rank();
  }

  /// Some launchers show each process a GPU of its own, and no other.
  Result<int> gpuOfProcess(int rank, int localProcess) {
    if (isShared)
      return Status(ErrorCategory::Usage,
                    "DTC_SHARE_GPU is for ranks that are threads of one process");
    Result<int> count = countGpus();
    if (!count)
      return count;
    if (*count == 1 && std::getenv("CUDA_VISIBLE_DEVICES"))
      return 0;
    if (localProcess < *count)
      return localProcess;
    return Status(ErrorCategory::NoFit,
                  "rank " + std::to_string(rank) + " needs GPU " + std::to_string(localProcess) +
                      " of this machine, which has fewer (start one process for "
                      "each): " +
                      std::to_string(*count));
  }

  const bool isShared = sharesGpu();
  std::vector<CodeFile> code;
  std::mutex mutex;
  std::map<int, uint64_t> contexts; ///< bytes, by GPU; under the mutex
  Libraries libraries;
  AlgorithmCache algorithms{io::inUserCache("cublaslt", io::Variable::CublasLtCache)};
  std::shared_ptr<LedgerBook> book = std::make_shared<LedgerBook>(); ///< of ranks that are threads
};

} // namespace
} // namespace cuda

std::unique_ptr<Platform> createCudaPlatform() { return std::make_unique<cuda::CudaPlatform>(); }

Result<std::unique_ptr<Platform>> openCudaPlatform(const Manifest &, int64_t ranksHere) {
  auto platform = std::make_unique<cuda::CudaPlatform>();
  if (Status status = platform->checkMachine(ranksHere); !status.isOk())
    return status;
  return std::unique_ptr<Platform>(std::move(platform));
}

} // namespace dtc::rt
