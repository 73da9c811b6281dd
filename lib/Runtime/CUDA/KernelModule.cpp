#include "KernelModule.h"

#include <algorithm>

namespace dtc::rt::cuda {
namespace {

constexpr std::string_view kPtx = ".ptx", kCubin = ".cubin";

std::string_view textOf(const CodeFile &file) { return {file.bytes.data(), file.bytes.size()}; }

const CodeFile *findFile(std::span<const CodeFile> files, const std::string &name) {
  auto found = std::ranges::find(files, name, &CodeFile::name);
  return found == files.end() ? nullptr : &*found;
}

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
  if (files.empty())
    return made;
  std::string log;
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  const CodeFile *file = findFile(files, gpu.architecture() + std::string(kCubin));
  if (file)
    result = made->loadImage(file->bytes.data(), log);
  if (const CodeFile *ptx = findFile(files, "kernels" + std::string(kPtx));
      ptx && result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
    file = ptx;
    result = made->loadImage(std::string(textOf(*ptx)).c_str(), log);
  }
  if (!file)
    return Status(ErrorCategory::NoFit, "has no kernels for " + gpu.name() +
                                            " (compile with --arch " + gpu.architecture() + ")");
  if (result == CUDA_SUCCESS)
    return made;
  std::string why = gpu.driver.check(result, "cuModuleLoadDataEx").message();
  if (std::string line = firstLine(log); !line.empty())
    why += ": " + line;
  return Status(ErrorCategory::NoFit,
                file->name + ": cannot be loaded onto " + gpu.name() + ": " + why);
}

CUresult KernelModule::loadImage(const char *image, std::string &log) {
  char text[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {text, reinterpret_cast<void *>(sizeof(text) - 1)};
  CUresult result = gpu.driver.cuModuleLoadDataEx(&module, image, 2, options, values);
  if (result != CUDA_SUCCESS)
    module = nullptr;
  log = text;
  return result;
}

KernelModule::~KernelModule() {
  if (!module)
    return;
  gpu.makeCurrent();
  gpu.driver.cuModuleUnload(module);
}

Result<CUfunction> KernelModule::find(const std::string &kernel) const {
  CUfunction function = nullptr;
  CUresult result = module ? gpu.driver.cuModuleGetFunction(&function, module, kernel.c_str())
                           : CUDA_ERROR_NOT_FOUND;
  if (result == CUDA_ERROR_NOT_FOUND)
    return refused("the artifact's code lacks the kernel: " + kernel);
  DTC_CUDA_TRY(gpu.driver.check(result, "cuModuleGetFunction"));
  return function;
}

} // namespace dtc::rt::cuda
