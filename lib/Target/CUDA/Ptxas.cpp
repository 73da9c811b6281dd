#include "Ptxas.h"

#include "dtc/Target/TemporaryFolder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>

using namespace llvm;

namespace dtc::cuda {

std::string findPtxas() {
  if (const char *given = std::getenv("DTC_PTXAS"))
    return given;
  if (ErrorOr<std::string> found = sys::findProgramByName("ptxas"))
    return *found;
  const char *home = std::getenv("CUDA_HOME");
  if (!home)
    return "";
  SmallString<128> path(home);
  sys::path::append(path, "bin", "ptxas");
  return sys::fs::can_execute(path) ? std::string(path) : "";
}

static Cubin readCubin(const std::string &path, StringRef ptxas, const PtxKernel &kernel) {
  auto file = MemoryBuffer::getFile(path);
  if (!file || (*file)->getBufferSize() == 0)
    return createStringError(inconvertibleErrorCode(),
                             ptxas + " told no error, but made no cubin of kernel " + kernel.name);
  return std::vector<char>((*file)->getBufferStart(), (*file)->getBufferEnd());
}

/// What failed: `ptxas -arch=sm_90 rows_3.ptx -o rows_3.cubin`, and what it said.
static Error failedCommand(ArrayRef<StringRef> arguments, StringRef kernel, StringRef messages) {
  std::string text = "`" + arguments.front().str();
  for (StringRef argument : arguments.drop_front())
    text += " " + sys::path::filename(argument).str();
  text += ("` failed at kernel " + kernel + ": ").str();
  // It names a file that is gone by then, and what stands for the kernel's name.
  std::string said = messages.str();
  const std::string folder = (sys::path::parent_path(arguments[2]) + "/").str();
  for (auto [from, to] : {std::pair(StringRef(folder), StringRef()), {standInOf(kernel), kernel}})
    for (size_t at; from != to && (at = said.find(from)) != std::string::npos;)
      said.replace(at, from.size(), to);
  return createStringError(inconvertibleErrorCode(), text + said);
}

/// True where registers are spilled to local memory, of which ptxas warns. What it says goes to a
/// new file.
static Expected<bool> run(ArrayRef<StringRef> arguments, const PtxKernel &kernel,
                          const std::string &said) {
  StringRef ptxas = arguments.front();
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(said), StringRef(said)};
  std::string why;
  int status = sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &why);
  if (status != 0 && !why.empty())
    return createStringError(inconvertibleErrorCode(), "cannot run " + ptxas + ": " + why);
  auto file = MemoryBuffer::getFile(said);
  StringRef messages = file ? (*file)->getBuffer().trim() : "";
  if (status != 0)
    return failedCommand(arguments, kernel.name, messages);
  return messages.contains("Registers are spilled");
}

/// ptxas spills a few bytes of some kernels although it has registers left. At its level 1 it
/// doesn't.
Cubin assemble(const std::string &ptxas, const PtxKernel &kernel, const std::string &architecture) {
  target::TemporaryFolder folder;
  if (folder.error())
    return createStringError(folder.error(), "cannot create a temporary folder");
  std::string input = folder.file(kernel.name + ".ptx"),
              output = folder.file(kernel.name + ".cubin"), arch = "-arch=" + architecture;
  if (Error failed = target::writeFile(input, kernel.ptx))
    return failed;
  SmallVector<StringRef> arguments = {ptxas, arch, input, "-o", output, "-warn-spills"};
  Expected<bool> spills = run(arguments, kernel, folder.file("messages"));
  if (!spills)
    return spills.takeError();
  Cubin first = readCubin(output, ptxas, kernel);
  if (!first || !*spills)
    return first;
  arguments.push_back("-O1");
  Expected<bool> stillSpills = run(arguments, kernel, folder.file("messages-again"));
  if (!stillSpills)
    return stillSpills.takeError();
  return *stillSpills ? std::move(first) : readCubin(output, ptxas, kernel);
}

} // namespace dtc::cuda
