// Launches of kernels, and the small things: copy, zero, constant.
#include "CudaOperations.h"

namespace dtc::rt::cuda {
namespace {

class LaunchOperation : public Operation {
public:
  LaunchOperation(CudaQueue &queue, const LaunchSpec &spec, CUfunction kernel)
      : queue(queue), kernel(kernel), name(spec.kernel), geometry(*spec.geometry),
        isEmpty(spec.extent == 0), values(spec.numArguments + (spec.scratchPerThread > 0)) {
    for (CUdeviceptr &value : values)
      parameters.push_back(&value);
  }

  Status issue(std::span<const Address> addresses) override {
    if (isEmpty)
      return Status::ok();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = pointerOf(addresses[i]);
    CUresult result =
        queue.driver.cuLaunchKernel(kernel, geometry.blocks, 1, 1, geometry.threads, 1, 1,
                                    geometry.sharedBytes, queue.stream, parameters.data(), nullptr);
    return result == CUDA_SUCCESS
               ? Status::ok()
               : queue.note(queue.driver.check(result, ("launch of " + name).c_str()));
  }

private:
  CudaQueue &queue;
  CUfunction kernel;
  std::string name;
  LaunchGeometry geometry;
  bool isEmpty; ///< the driver refuses to launch nothing
  std::vector<CUdeviceptr> values;
  std::vector<void *> parameters;
};

class CopyOperation : public Operation {
public:
  CopyOperation(CudaQueue &queue, uint64_t bytes) : queue(queue), bytes(bytes) {}

  Status issue(std::span<const Address> addresses) override {
    Address from = addresses[0], to = addresses[1];
    if (bytes == 0 || from == to)
      return Status::ok();
    bool fromHost = queue.gpu.isHost(from), toHost = queue.gpu.isHost(to);
    const Driver &driver = queue.driver;
    if (fromHost && toHost)
      return queue.note(failed("a copy within the host's arena is none that a GPU makes"));
    if (fromHost)
      return queue.note(
          DTC_CUDA_CALL(driver, cuMemcpyHtoDAsync_v2, pointerOf(to), from, bytes, queue.stream));
    if (toHost)
      return queue.note(
          DTC_CUDA_CALL(driver, cuMemcpyDtoHAsync_v2, to, pointerOf(from), bytes, queue.stream));
    return queue.note(DTC_CUDA_CALL(driver, cuMemcpyDtoDAsync_v2, pointerOf(to), pointerOf(from),
                                    bytes, queue.stream));
  }

private:
  CudaQueue &queue;
  uint64_t bytes;
};

class ZeroOperation : public Operation {
public:
  ZeroOperation(CudaQueue &queue, uint64_t bytes) : queue(queue), bytes(bytes) {}
  Status issue(std::span<const Address> addresses) override {
    if (bytes == 0)
      return Status::ok();
    return queue.note(DTC_CUDA_CALL(queue.driver, cuMemsetD8Async, pointerOf(addresses[0]), 0,
                                    bytes, queue.stream));
  }

private:
  CudaQueue &queue;
  uint64_t bytes;
};

class ConstantOperation : public Operation {
public:
  ConstantOperation(CudaQueue &queue, int64_t value)
      : queue(queue), low(static_cast<uint32_t>(value)),
        high(static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32)) {}

  Status issue(std::span<const Address> addresses) override {
    CUdeviceptr target = pointerOf(addresses[0]);
    Status status = DTC_CUDA_CALL(queue.driver, cuMemsetD32Async, target, low, 1, queue.stream);
    if (status.isOk())
      status = DTC_CUDA_CALL(queue.driver, cuMemsetD32Async, target + 4, high, 1, queue.stream);
    return queue.note(std::move(status));
  }

private:
  CudaQueue &queue;
  uint32_t low, high;
};

/// Lets a kernel have more shared memory than it gets by default, where the GPU has as much.
Status allowShared(const CudaQueue &queue, CUfunction kernel, const LaunchSpec &spec) {
  if (spec.geometry->sharedBytes == 0)
    return Status::ok();
  CUresult result =
      queue.driver.cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(spec.geometry->sharedBytes));
  if (result == CUDA_SUCCESS)
    return Status::ok();
  return {ErrorCategory::NoFit, "the kernel " + spec.kernel + " needs more shared memory than " +
                                    queue.gpu.name() +
                                    " has, bytes: " + std::to_string(spec.geometry->sharedBytes)};
}

} // namespace

MadeOperation makeLaunch(CudaQueue &queue, const LaunchSpec &spec, KernelModule &kernels) {
  Result<CUfunction> kernel = kernels.find(spec.kernel);
  if (!kernel)
    return kernel.status();
  if (!spec.geometry)
    return refused("the launch of a GPU's kernel has no geometry: " + spec.kernel);
  int most = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(queue.driver, cuFuncGetAttribute, &most,
                             CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *kernel));
  if (spec.geometry->threads > static_cast<uint32_t>(most))
    return Status(ErrorCategory::NoFit, "the kernel " + spec.kernel +
                                            " has more threads in a block "
                                            "than " +
                                            queue.gpu.name() + " can run, " + std::to_string(most) +
                                            ": " + std::to_string(spec.geometry->threads));
  DTC_CUDA_TRY(allowShared(queue, *kernel, spec));
  return made<LaunchOperation>(queue, spec, *kernel);
}

MadeOperation makeCopy(CudaQueue &queue, const CopySpec &spec) {
  return made<CopyOperation>(queue, spec.bytes);
}

MadeOperation makeZero(CudaQueue &queue, const ZeroSpec &spec) {
  return made<ZeroOperation>(queue, spec.bytes);
}

MadeOperation makeConstant(CudaQueue &queue, const ConstantSpec &spec) {
  return made<ConstantOperation>(queue, spec.value);
}

} // namespace dtc::rt::cuda
