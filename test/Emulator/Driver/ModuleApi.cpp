// Modules, kernels and their launches.
#include "Emulator/Driver/Context.h"
#include "Emulator/Interpreter/Block.h"
#include "Emulator/PTX/ProgramBuilder.h"

#include <cstdio>
#include <cstring>

namespace dtc::emulator {

namespace {

struct Kernel {
  Device *device;
  std::shared_ptr<const Program> program;
  unsigned dynamicSharedLimit;
};

struct Module {
  static constexpr const char *kWhat = "module";
  Device *device;
  std::vector<uint64_t> variables; // addresses
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    size_t first = std::min(line.find_first_not_of(" \t"), line.size());
    lines.emplace_back(line.substr(first));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Puts a variable into the device's memory, with its initial value.
uint64_t placeVariable(Device &device, const ptx::Variable &variable) {
  if (variable.isExternal || variable.bytes == 0)
    ptx::syntaxError(variable.line, "variables without a definition aren't supported");
  uint64_t address = device.memory().allocate(variable.bytes);
  std::vector<uint8_t> initial = variable.initial;
  initial.resize(variable.bytes, 0);
  std::memcpy(device.memory().translate(address, variable.bytes), initial.data(), initial.size());
  device.history().initialize({address, address + variable.bytes});
  return address;
}

std::unique_ptr<Module> loadModule(std::string_view text, Device &device) {
  ptx::Module parsed = ptx::parse(text);
  auto module = std::make_unique<Module>();
  module->device = &device;
  ptx::VariableAddresses addresses;
  for (const ptx::Variable &variable : parsed.variables)
    if (variable.space != "shared") {
      addresses[variable.name] = placeVariable(device, variable);
      module->variables.push_back(addresses[variable.name]);
    }
  std::vector<std::string> lines = linesOf(text);
  for (const ptx::Kernel &kernel : parsed.kernels) {
    std::shared_ptr<const Program> program = ptx::decode(parsed, kernel, addresses, lines);
    if (program->sharedBytes > DeviceLimits::staticSharedPerBlock)
      ptx::syntaxError(kernel.line, "kernel '", kernel.name, "' uses ", program->sharedBytes,
                       " bytes of static shared memory, and 49152 are allowed");
    unsigned limit = DeviceLimits::sharedPerBlock - program->sharedBytes;
    module->kernels[kernel.name] = std::make_unique<Kernel>(Kernel{&device, program, limit});
  }
  return module;
}

/// Hands a complaint about PTX to the buffer that the caller gave for it.
void fillErrorLog(const std::string &message, unsigned count, const cuda::CUjit_option *options,
                  void **values) {
  char *buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == cuda::CU_JIT_ERROR_LOG_BUFFER)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == cuda::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      size = reinterpret_cast<size_t>(values[i]);
  }
  if (buffer && size > 0)
    std::snprintf(buffer, size, "%s", message.c_str());
}

std::string_view textOf(const void *image) {
  const auto *text = static_cast<const char *>(image);
  require(!std::string_view(text).starts_with("\177ELF"), cuda::CUDA_ERROR_NO_BINARY_FOR_GPU,
          "the emulated device takes PTX alone");
  return text;
}

Kernel &kernelOf(cuda::CUfunction function) {
  require(function, cuda::CUDA_ERROR_INVALID_HANDLE, "the function is null");
  return *reinterpret_cast<Kernel *>(function);
}

void checkGeometry(const Kernel &kernel, Extent blocks, Extent threads, unsigned sharedBytes) {
  using Limits = DeviceLimits;
  const Program &program = *kernel.program;
  auto text = [](Extent extent) { return concat(extent.x, " x ", extent.y, " x ", extent.z); };
  bool isGridValid = blocks.count() > 0 && blocks.x <= Limits::gridX && blocks.y <= Limits::gridY &&
                     blocks.z <= Limits::gridZ;
  require(isGridValid, cuda::CUDA_ERROR_INVALID_VALUE, program.name, ": no grid of ", text(blocks),
          " blocks");
  bool isBlockValid = threads.count() > 0 && threads.x <= Limits::blockX &&
                      threads.y <= Limits::blockY && threads.z <= Limits::blockZ &&
                      threads.count() <= Limits::threadsPerBlock;
  require(isBlockValid, cuda::CUDA_ERROR_INVALID_VALUE, program.name, ": no block of ",
          text(threads), " threads");
  require(program.requiredThreads == 0 || threads.count() == program.requiredThreads,
          cuda::CUDA_ERROR_INVALID_VALUE, program.name, ": ", text(threads),
          " threads, and .reqntid says ", program.requiredThreads);
  require(sharedBytes <= kernel.dynamicSharedLimit, cuda::CUDA_ERROR_INVALID_VALUE, program.name,
          ": ", sharedBytes, " bytes of dynamic shared memory, and ", kernel.dynamicSharedLimit,
          " are allowed; CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises it");
}

void launch(Kernel &kernel, Extent blocks, Extent threads, unsigned sharedBytes, Stream &stream,
            void **values) {
  require(&stream.device() == kernel.device, cuda::CUDA_ERROR_INVALID_HANDLE, kernel.program->name,
          ": the stream and the kernel are of two devices");
  checkGeometry(kernel, blocks, threads, sharedBytes);
  Launch made{kernel.program, blocks, threads, sharedBytes,
              std::vector<std::byte>(kernel.program->parameterBytes)};
  for (size_t i = 0; i < kernel.program->parameters.size(); ++i) {
    const Parameter &parameter = kernel.program->parameters[i];
    require(values && values[i], cuda::CUDA_ERROR_INVALID_VALUE, kernel.program->name,
            ": parameter ", i, " is missing");
    std::memcpy(made.parameters.data() + parameter.offset, values[i], parameter.bytes);
  }
  stream.submit({"kernel " + kernel.program->name,
                 [made = std::move(made), &memory = stream.device().memory()] {
                   hangIfAsked("kernel");
                   return runLaunch(made, memory);
                 }});
}

} // namespace
} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  return enter(__func__, [&] {
    try {
      *module = handles<dtc::emulator::Module>().add<CUmodule>(
          loadModule(textOf(image), currentDevice()));
    } catch (const Fault &fault) {
      fillErrorLog(fault.what(), count, options, values);
      throw;
    }
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return enter(__func__, [&] {
    std::unique_ptr<dtc::emulator::Module> taken = handles<dtc::emulator::Module>().take(module);
    taken->device->free(taken->variables);
  });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return enter(__func__, [&] {
    auto &kernels = handles<dtc::emulator::Module>().find(module).kernels;
    auto at = kernels.find(name);
    require(at != kernels.end(), CUDA_ERROR_NOT_FOUND, "the module has no kernel '", name, "'");
    *function = reinterpret_cast<CUfunction>(at->second.get());
  });
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  return enter(__func__, [&] {
    require(attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CUDA_ERROR_INVALID_VALUE,
            "the emulator tells the most threads of a block alone");
    kernelOf(function);
    *value = DeviceLimits::threadsPerBlock;
  });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return enter(__func__, [&] {
    require(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CUDA_ERROR_INVALID_VALUE,
            "only the size of dynamic shared memory can be set");
    Kernel &kernel = kernelOf(function);
    unsigned most = DeviceLimits::sharedPerBlockOptIn - kernel.program->sharedBytes;
    require(value >= 0 && static_cast<unsigned>(value) <= most, CUDA_ERROR_INVALID_VALUE,
            kernel.program->name, ": ", value, " bytes of dynamic shared memory, and ", most,
            " are possible");
    kernel.dynamicSharedLimit = static_cast<unsigned>(value);
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                        CUstream stream, void **parameters, void **extra) {
  return enter(__func__, [&] {
    require(!extra, CUDA_ERROR_INVALID_VALUE, "parameters are taken from kernelParams alone");
    launch(kernelOf(function), {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes,
           streamOf(stream), parameters);
  });
}

} // namespace dtc::cuda
