#include "KernelModule.h"

namespace dtc::rt::cuda {
namespace {

constexpr std::string_view kPtx = ".ptx", kCubin = ".cubin", kAllKernels = "kernels.ptx";

std::string_view textOf(const CodeFile &file) { return {file.bytes.data(), file.bytes.size()}; }

/// The first line of a compiler's log that says something.
std::string firstLine(const std::string &log) {
  size_t begin = log.find_first_not_of(" \n");
  return begin == std::string::npos ? "" : log.substr(begin, log.find('\n', begin) - begin);
}

} // namespace

Status checkCode(std::span<const CodeFile> files) {
  for (const CodeFile &file : files) {
    bool isPtx = file.name.ends_with(kPtx) && textOf(file).find(".version") != std::string::npos;
    bool isCubin = file.name.ends_with(kCubin) && textOf(file).starts_with("\x7f"
                                                                           "ELF");
    if (!isPtx && !isCubin)
      return refused(file.name + ": is neither PTX nor a cubin");
  }
  return Status::ok();
}

Result<std::unique_ptr<KernelModule>> KernelModule::load(const Gpu &gpu,
                                                         std::span<const CodeFile> files) {
  std::unique_ptr<KernelModule> made(new KernelModule(gpu));
  const std::string own = gpu.architecture() + "/";
  for (const CodeFile &file : files)
    if (file.name == kAllKernels)
      made->ptx = &file;
    else if (file.name.starts_with(own) && file.name.ends_with(kCubin))
      made->cubins[file.name.substr(own.size(), file.name.size() - own.size() - kCubin.size())] =
          &file;
  if (!files.empty() && !made->ptx && made->cubins.empty())
    return Status(ErrorCategory::NoFit, "has no kernels for " + gpu.name() +
                                            " (compile with --arch " + gpu.architecture() + ")");
  if (made->ptx && made->cubins.empty())
    if (Result<bool> loaded = made->loadPtx(); !loaded)
      return loaded.status();
  return made;
}

Result<bool> KernelModule::load(const CodeFile &file, const char *image) {
  if (modules.contains(&file))
    return true;
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  CUmodule module = nullptr;
  CUresult result = gpu.driver.cuModuleLoadDataEx(&module, image, 2, options, values);
  if (result == CUDA_SUCCESS)
    modules[&file] = module;
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NO_BINARY_FOR_GPU)
    return result == CUDA_SUCCESS;
  std::string why = gpu.driver.check(result, "cuModuleLoadDataEx").message();
  if (std::string line = firstLine(log); !line.empty())
    why += ": " + line;
  return Status(ErrorCategory::NoFit,
                file.name + ": cannot be loaded onto " + gpu.name() + ": " + why);
}

/// The driver wants a zero behind the text.
Result<bool> KernelModule::loadPtx() {
  if (!ptx)
    return false;
  return load(*ptx, std::string(textOf(*ptx)).c_str());
}

KernelModule::~KernelModule() {
  if (!modules.empty())
    gpu.makeCurrent();
  for (auto [file, module] : modules)
    gpu.driver.cuModuleUnload(module);
}

Result<CUfunction> KernelModule::functionIn(const CodeFile &file, const std::string &kernel) const {
  CUfunction function = nullptr;
  CUresult result = gpu.driver.cuModuleGetFunction(&function, modules.at(&file), kernel.c_str());
  if (result != CUDA_ERROR_NOT_FOUND)
    DTC_CUDA_TRY(gpu.driver.check(result, "cuModuleGetFunction"));
  return function;
}

Result<CUfunction> KernelModule::find(const std::string &kernel) {
  const CodeFile *file = nullptr;
  if (auto cubin = cubins.find(kernel); cubin != cubins.end()) {
    Result<bool> loaded = load(*cubin->second, cubin->second->bytes.data());
    if (!loaded)
      return loaded.status();
    file = *loaded ? cubin->second : nullptr;
  }
  if (!file) {
    Result<bool> loaded = loadPtx();
    if (!loaded)
      return loaded.status();
    file = *loaded ? ptx : nullptr;
  }
  Result<CUfunction> function = file ? functionIn(*file, kernel) : Result<CUfunction>(nullptr);
  if (function && !*function)
    return refused("the artifact's code lacks the kernel: " + kernel);
  return function;
}

} // namespace dtc::rt::cuda
