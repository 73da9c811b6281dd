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
  if (status != 0) {
    auto messages = MemoryBuffer::getFile(said);
    if (messages && why.empty())
      why = (*messages)->getBuffer().trim().str();
    return createStringError(inconvertibleErrorCode(), ptxas + " " + arch + " failed: " + why);
  }
  return readFile(output);
}

} // namespace dtc::cuda
