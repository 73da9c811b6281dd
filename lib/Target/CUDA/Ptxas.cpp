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

static Expected<std::vector<char>> readFile(const std::string &path) {
  auto file = MemoryBuffer::getFile(path);
  if (!file)
    return createStringError(file.getError(), "cannot read " + path);
  return std::vector<char>((*file)->getBufferStart(), (*file)->getBufferEnd());
}

/// The kernel in whose text the first line is that the messages name; empty where they name none.
static std::string kernelOf(StringRef messages, StringRef ptx) {
  constexpr StringRef kEntry = ".entry ";
  StringRef behind = messages.split("line ").second;
  size_t number = 0, end = 0;
  if (behind.consumeInteger(10, number))
    return "";
  for (; number > 0 && end != StringRef::npos; --number)
    end = ptx.find('\n', end + 1);
  StringRef before = ptx.take_front(end);
  size_t entry = before.rfind(kEntry);
  return entry == StringRef::npos ? ""
                                  : before.substr(entry + kEntry.size())
                                        .take_until([](char c) { return c == '('; })
                                        .str();
}

/// What failed: `ptxas -arch=sm_90 kernels.ptx -o sm_90.cubin`, at which kernel, and what it said.
static Error failedCommand(ArrayRef<StringRef> arguments, StringRef ptx, StringRef messages) {
  std::string text = "`" + arguments.front().str();
  for (StringRef argument : arguments.drop_front())
    text += " " + sys::path::filename(argument).str();
  text += "` failed";
  if (std::string kernel = kernelOf(messages, ptx); !kernel.empty())
    text += " at kernel " + kernel;
  // It names a file that is gone by then.
  std::string said = messages.str();
  const std::string folder = (sys::path::parent_path(arguments[2]) + "/").str();
  for (size_t at; (at = said.find(folder)) != std::string::npos;)
    said.erase(at, folder.size());
  return createStringError(inconvertibleErrorCode(), text + ": " + said);
}

Expected<std::vector<char>> assemble(const std::string &ptxas, StringRef ptx,
                                     const std::string &architecture) {
  target::TemporaryFolder folder;
  if (folder.error())
    return createStringError(folder.error(), "cannot create a temporary folder");
  std::string input = folder.file("kernels.ptx"), output = folder.file(architecture + ".cubin"),
              said = folder.file("messages");
  if (Error failed = target::writeFile(input, ptx))
    return failed;
  std::string arch = "-arch=" + architecture;
  StringRef arguments[] = {ptxas, arch, input, "-o", output};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(said), StringRef(said)};
  std::string why;
  int status = sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &why);
  if (status != 0 && !why.empty())
    return createStringError(inconvertibleErrorCode(), "cannot run " + ptxas + ": " + why);
  if (status != 0) {
    auto messages = MemoryBuffer::getFile(said);
    return failedCommand(arguments, ptx, messages ? (*messages)->getBuffer().trim() : "");
  }
  return readFile(output);
}

} // namespace dtc::cuda
