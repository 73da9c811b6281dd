#include "TorchScript.h"

#include "Pickle.h"
#include "StoredTensors.h"

#include "dtc-io/CheckedSize.h"
#include "dtc-io/InputFile.h"
#include "dtc-io/SuddenEnd.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace mlir;

namespace dtc::import {

/// What the reader writes of a module, at most.
static constexpr uint64_t kMostText = uint64_t(1) << 30;
static constexpr int kRefused = 3; ///< the reader's exit code for files that it refuses

std::optional<std::string> torchScriptRoot(const io::ZipFile &zip) {
  for (const auto &[name, member] : zip.members()) {
    auto [folder, rest] = StringRef(name).split('/');
    if (rest.starts_with("code/") && zip.members().contains((folder + "/data.pkl").str()))
      return (folder + "/").str();
  }
  return std::nullopt;
}

/// Of a pickle, and of all compressed members together: PyTorch stores tensors as they are, and
/// compresses code alone.
static constexpr int64_t kMostUnpacked = int64_t(1) << 26;

static LogicalResult checkSizes(const io::ZipFile &zip, Location file) {
  io::CheckedSize unpacked = 0;
  for (const auto &[name, member] : zip.members()) {
    if (!member.stored)
      unpacked = unpacked + io::CheckedSize(member.size);
    if (!unpacked.isAtMost(kMostUnpacked))
      return emitError(file) << name << ": is too large for a compressed member: " << member.size;
  }
  return success();
}

/// LibTorch reads pickles by recursion.
static LogicalResult checkPickles(const io::ZipFile &zip, Location file) {
  for (const auto &[name, member] : zip.members()) {
    if (!StringRef(name).ends_with("pkl"))
      continue;
    std::string why;
    if (!io::CheckedSize(member.size).isAtMost(kMostUnpacked))
      return emitError(file) << name << ": is too large: " << member.size;
    auto bytes = zip.extract(name, why);
    if (!bytes)
      return emitError(file) << StringRef(why).drop_front(
                 std::min(why.size(), zip.file().path().size() + 2));
    if (why = checkPickle(*bytes); !why.empty())
      return emitError(file) << name << ": " << why;
  }
  return success();
}

/// What this code is in: the program, or the module of the Python package.
static std::string thisFile() {
  static int anchor;
  Dl_info object = {};
  const bool found = ::dladdr(&anchor, &object) && object.dli_fname;
  const std::string module = found ? object.dli_fname : "";
  return StringRef(module).ends_with(".so") ? module
                                            : llvm::sys::fs::getMainExecutable("dtc", &anchor);
}

/// DTC_TORCHSCRIPT, beside this program or module, or in PATH; empty where it isn't found.
static std::string findReader() {
  if (const char *given = std::getenv("DTC_TORCHSCRIPT"))
    return given;
  SmallString<256> beside(llvm::sys::path::parent_path(thisFile()));
  llvm::sys::path::append(beside, "dtc-torchscript");
  if (llvm::sys::fs::can_execute(beside))
    return std::string(beside);
  auto found = llvm::sys::findProgramByName("dtc-torchscript");
  return found ? *found : "";
}

/// "ids=8x32xi64"
static std::string describe(const std::string &name, const InputShape &shape) {
  std::string text =
      name + "=" +
      llvm::join(llvm::map_range(shape.dims, [](int64_t size) { return std::to_string(size); }),
                 "x");
  return shape.type.empty() ? text : text + (shape.dims.empty() ? "" : "x") + shape.type;
}

static std::string lastLine(StringRef text) {
  text = text.trim();
  return text.substr(text.rfind('\n') == StringRef::npos ? 0 : text.rfind('\n') + 1).str();
}

/// What the reader writes of the module.
static FailureOr<std::string> record(const std::string &reader, const ImportOptions &options,
                                     Location file) {
  SmallString<128> written, said;
  if (llvm::sys::fs::createTemporaryFile("dtc-torchscript", "json", written) ||
      llvm::sys::fs::createTemporaryFile("dtc-torchscript", "txt", said))
    return LogicalResult(emitError(file) << "cannot be read: there is no temporary file");
  llvm::FileRemover removesWritten(written), removesSaid(said);
  const io::UnfinishedFile known[] = {io::UnfinishedFile(std::string(written)),
                                      io::UnfinishedFile(std::string(said))};
  std::vector<std::string> given = {reader, options.path};
  for (const auto &[name, shape] : options.shapes)
    given.push_back(describe(name, shape));
  const std::vector<StringRef> arguments(given.begin(), given.end());
  const std::optional<StringRef> redirects[] = {StringRef(), StringRef(written), StringRef(said)};
  std::string why;
  const int status =
      llvm::sys::ExecuteAndWait(reader, arguments, std::nullopt, redirects, 0, 0, &why);
  if (status == -1)
    return LogicalResult(emitError(file) << "cannot be read: " << why);
  auto text = io::readFile(std::string(status == 0 ? written : said), kMostText, why);
  if (status == kRefused && text)
    return LogicalResult(emitError(file) << lastLine(*text));
  if (status != 0)
    return LogicalResult(emitError(file) << "LibTorch fails on it, or takes more time or memory "
                                            "than a model of its size may; is it damaged?");
  if (!text)
    return LogicalResult(emitError(file) << "what " << reader << " wrote cannot be read: " << why);
  return *text;
}

FailureOr<AtenGraph> readTorchScript(const io::ZipFile &zip, const std::string &root,
                                     const ImportOptions &options, Location file, Budget &budget) {
  const std::string reader = findReader();
  if (reader.empty())
    return LogicalResult(emitError(file)
                         << "is TorchScript, which is read with LibTorch by dtc-torchscript; it "
                            "isn't found (DTC_TORCHSCRIPT, beside dtc, PATH): build it with "
                            "scripts/torchscript.sh");
  if (failed(checkSizes(zip, file)) || failed(checkPickles(zip, file)))
    return failure();
  auto text = record(reader, options, file);
  if (failed(text))
    return failure();
  auto [programText, weightsText] = StringRef(*text).split('\n');
  std::string why;
  auto program = parseProgram(programText, file.getContext(), budget, why);
  auto payloads = program ? parsePayloads(weightsText, file.getContext(), why) : std::nullopt;
  if (!payloads)
    return LogicalResult(emitError(file) << why);
  auto sourceOf = [&](const NamedTensor &) { return StoredTensors::Source{*payloads, ""}; };
  if (failed(StoredTensors(file, zip, root).readAll(*program, sourceOf)))
    return failure();
  return std::move(program->graph);
}

} // namespace dtc::import
