// Linking by lld as a library.
#include "MachineCode.h"

#include "dtc/Target/TemporaryFolder.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/MemoryBuffer.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace dtc::cpu {

Expected<std::vector<char>> linkSharedObject(const std::vector<std::vector<char>> &objects,
                                             const std::vector<std::string> &symbols,
                                             const std::vector<std::string> &definitions) {
  target::TemporaryFolder folder;
  if (folder.error())
    return createStringError(folder.error(), "cannot create a temporary folder");
  std::string output = folder.file("kernels.so"), exports = folder.file("exports");
  std::string script = "{ global:";
  for (const std::string &symbol : symbols)
    script += " \"" + symbol + "\";";
  script += " local: *; };\n";
  if (Error failed = target::writeFile(exports, script))
    return failed;
  std::vector<std::string> arguments = {"ld.lld",          "-shared",     "--build-id=none",
                                        "--hash-style=gnu", "--gc-sections", "-z", "noexecstack",
                                        "-soname=kernels.so", "--version-script=" + exports,
                                        "-o", output};
  for (const std::string &definition : definitions)
    arguments.push_back("--defsym=" + definition);
  for (size_t i = 0; i < objects.size(); ++i) {
    arguments.push_back(folder.file("kernels" + Twine(i) + ".o"));
    if (Error failed =
            target::writeFile(arguments.back(), StringRef(objects[i].data(), objects[i].size())))
      return failed;
  }
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string messages;
  raw_string_ostream stream(messages);
  static std::mutex oneAtATime; // lld keeps global state
  std::lock_guard<std::mutex> lock(oneAtATime);
  lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return createStringError(inconvertibleErrorCode(), "linking kernels: " + messages);
  auto linked = MemoryBuffer::getFile(output);
  if (!linked)
    return createStringError(linked.getError(), "cannot read " + output);
  return std::vector<char>((*linked)->getBufferStart(), (*linked)->getBufferEnd());
}

} // namespace dtc::cpu
