#include "HuggingFace.h"

#include "HuggingFaceScript.h"
#include "dtc-io/ExitCodes.h"
#include "dtc-io/InputFile.h"
#include "dtc/Driver/Diagnostics.h"
#include "dtc/Driver/Driver.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

#include <cstdlib>

namespace dtc::driver {

using plan::Error;

namespace {
struct BesideFlag {
  const char *name, *text;
  std::string HuggingFaceFlags::*value;
};
} // namespace

static const BesideFlag kBeside[] = {
    {"--sequence", "tokens of a sample of --hf", &HuggingFaceFlags::sequence},
    {"--decoder-sequence", "tokens of its decoder, if others", &HuggingFaceFlags::decoderSequence},
    {"--architecture", "class of transformers, if not the configuration's",
     &HuggingFaceFlags::architecture},
    {"--inputs", "what the model of --hf is called with: NAME,...", &HuggingFaceFlags::inputs},
};

static void declareHuggingFaceFlags(CLI::App &command, HuggingFaceFlags &flags) {
  command.add_option("--hf", flags.path, "instead of a file: a folder or config.json");
  for (const BesideFlag &flag : kBeside)
    command.add_option(flag.name, flags.*flag.value, flag.text);
}

void declareModel(CLI::App &command, HuggingFaceFlags &flags, Options &options) {
  command.add_option("model", options.model, "the model: an ONNX file or a PyTorch program");
  command.add_option("--model-name", options.modelName, "what answers call it");
  declareHuggingFaceFlags(command, flags);
}

std::optional<std::string> wrongModel(const CLI::App &command, const std::string &model) {
  if (command.count("--hf"))
    return model.empty() ? std::nullopt
                         : std::optional<std::string>("--hf and a model file exclude each other");
  for (const BesideFlag &flag : kBeside)
    if (command.count(flag.name))
      return std::string(flag.name) + " is for --hf";
  return model.empty() ? std::optional<std::string>("model is required") : std::nullopt;
}

std::optional<Error> missingModel(const std::string &path) {
  std::string why;
  if (path.empty() || io::InputFile::open(path, why))
    return std::nullopt;
  return Error{path + ": cannot read the model: " + why, ErrorCategory::InputRefused};
}

/// A new file, which is removed with its name's last owner, or when a signal ends the process.
static std::shared_ptr<const std::string> makeTemporary(llvm::StringRef ending) {
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("dtc", ending, path))
    return nullptr;
  llvm::sys::RemoveFileOnSignal(path);
  return {new std::string(path.str()), [](const std::string *made) {
            (void)llvm::sys::fs::remove(*made);
            llvm::sys::DontRemoveFileOnSignal(*made);
            delete made;
          }};
}

/// The interpreter: DTC_PYTHON, else the one that a shell finds.
static plan::Result<std::string> findPython() {
  const char *asked = std::getenv("DTC_PYTHON");
  std::string name = asked && *asked ? asked : "python3";
  auto found = llvm::sys::findProgramByName(name);
  if (!found || !llvm::sys::fs::can_execute(*found)) // a name with a folder is found unseen
    return Error{"--hf needs Python with PyTorch and transformers, and there is no " + name +
                 "; DTC_PYTHON names another one"};
  return *found;
}

/// What the script said of its error, else the last line of all that was said.
static std::string lastWords(const std::string &path) {
  constexpr uint64_t kMostBytes = 16 << 20;
  std::string why;
  std::optional<std::string> text = io::readFile(path, kMostBytes, why);
  if (!text)
    return "";
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(*text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : llvm::reverse(lines))
    if (line.consume_front("dtc: error: "))
      return line.str();
  return lines.empty() ? "" : lines.back().str();
}

Outcome<HuggingFaceModel> HuggingFaceModel::write(const HuggingFaceFlags &flags, bool withWeights) {
  auto python = findPython();
  if (!python)
    return fail(python.error());
  auto program = makeTemporary("pt2"), said = makeTemporary("txt");
  if (!program || !said)
    return fail({"--hf: can't write a temporary file", ErrorCategory::Failed});
  std::vector<std::string> words = {*python,
                                    "-c",
                                    kHuggingFaceScript,
                                    "export",
                                    flags.path,
                                    "--output=" + *program,
                                    "--operators=" + importedOperators()};
  for (const BesideFlag &flag : kBeside)
    if (!(flags.*flag.value).empty())
      words.push_back(std::string(flag.name) + "=" + flags.*flag.value);
  if (withWeights)
    words.push_back("--with-weights");
  std::vector<llvm::StringRef> arguments(words.begin(), words.end());
  std::string why;
  int code =
      llvm::sys::ExecuteAndWait(*python, arguments, std::nullopt,
                                {llvm::StringRef(), llvm::StringRef(), llvm::StringRef(*said)},
                                /*SecondsToWait=*/0, /*MemoryLimit=*/0, &why);
  if (code == 0)
    return HuggingFaceModel(std::move(program));
  std::string message = why.empty() ? lastWords(*said) : why;
  if (message.empty())
    message = *python + " ended with code " + std::to_string(code);
  ErrorCategory category = io::categoryOf(code);
  if (category == ErrorCategory::Usage || category == ErrorCategory::InputRefused)
    return fail({message, category});
  return fail({"--hf " + flags.path + ": " + message, ErrorCategory::Failed});
}

} // namespace dtc::driver
