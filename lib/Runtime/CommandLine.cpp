#include "dtc-rt/CommandLine.h"

#include "dtc-io/EditDistance.h"
#include "dtc-io/Environment.h"
#include "dtc-io/ExitCodes.h"
#include "dtc-io/PrintableLine.h"
#include "dtc-io/StandardStreams.h"
#include "dtc-io/SuddenEnd.h"
#include "dtc-io/WholeNumber.h"
#include "dtc-rt/Processes/LocalProcesses.h"
#include "dtc-rt/Run.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace dtc::rt {
namespace {

std::string unknownFlag(const CLI::App &app, const std::string &argument) {
  std::string flag = argument.substr(0, argument.find('='));
  if (!flag.starts_with("-"))
    return "unexpected argument: " + argument;
  std::string nearest;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      if (nearest.empty() || io::editDistance(flag, "--" + name) < io::editDistance(flag, nearest))
        nearest = "--" + name;
  return "unknown flag (the nearest known one is " + nearest + "): " + flag;
}

constexpr const char *kAbout = "Trains the model of an artifact.";

CLI::Validator wholeNumber(int64_t least, uint64_t most) {
  return {[=](std::string &text) { return io::checkWholeNumber(text, least, most); }, ""};
}

/// No range of CLI11 refuses what is no number.
CLI::Validator secondsOfTimeout() {
  return {[](std::string &text) {
            constexpr double least = 0.001, most = 1e7;
            double seconds = 0;
            const bool isNumber = CLI::detail::lexical_cast(text, seconds);
            return isNumber && seconds >= least && seconds <= most
                       ? ""
                       : "expected seconds from 0.001 to 10000000, got '" + text + "'";
          },
          ""};
}

void addCount(CLI::App &app, const char *flag, std::optional<int64_t> &count, const char *about) {
  app.add_option(flag, count, about)->transform(wholeNumber(1, uint64_t(1) << 40))->type_name("N");
}

void addCheckpointOptions(CLI::App &app, RunOptions &options) {
  app.add_option("--checkpoint-dir", options.checkpointDir,
                 "save checkpoints in this folder: at the end, on SIGTERM or SIGUSR1 (exit code "
                 "75), and as --checkpoint-every says")
      ->type_name("DIR");
  addCount(app, "--checkpoint-every", options.checkpointEvery, "save every N steps");
  addCount(app, "--checkpoint-keep", options.checkpointKeep,
           "remove all but the newest N after each save (default: keep all)");
  app.add_flag("--resume", options.resume,
               "go on from the newest checkpoint, or begin where there is none");
}

void addSaveWeights(CLI::App &app, RunOptions &options) {
  app.add_option_function<std::string>(
         "--save-weights",
         [&options](const std::string &text) {
           options.saveWeights = text;
           options.savedWeights = SavedWeights::All;
           for (auto [what, saved] : {std::pair{"adapters=", SavedWeights::Adapters},
                                      {"merged=", SavedWeights::Merged},
                                      {"peft=", SavedWeights::Peft}}) {
             if (!text.starts_with(what))
               continue;
             options.savedWeights = saved;
             options.saveWeights = text.substr(std::strlen(what));
             if (options.saveWeights.empty())
               throw CLI::ValidationError("--save-weights", std::string(what) + " needs a path");
           }
         },
         "write the trained weights; of what --lora trains adapters=FILE: alone, merged=FILE: "
         "added "
         "to the model's weights, peft=DIR: as Hugging Face's PEFT loads them")
      ->type_name("FILE.safetensors");
}

void addOptions(CLI::App &app, RunOptions &options) {
  app.set_version_flag("--version", std::string("dtc-run ") + DTC_VERSION);
  app.allow_extras();
  app.add_option("artifact", options.artifact, "artifact written by dtc compile")
      ->type_name("OUT.dtc");
  app.add_option(
         "--data", options.data,
         "samples: .safetensors or .npz of arrays named as the model's inputs and target, "
         "or .bin of tokens (uint16; uint32 for vocabularies of 65,536 and more); by default "
         "what was given to dtc compile")
      ->type_name("FILE");
  app.add_option("--eval-data", options.evalData,
                 "log the mean loss on these samples as eval_loss: at the end, and as "
                 "--eval-every says")
      ->type_name("FILE");
  addCount(app, "--eval-every", options.evalEvery, "evaluate every N steps");
  app.add_option("--outputs", options.outputs,
                 "write the outputs of a model compiled with --loss none")
      ->type_name("FILE.safetensors");
  addCount(app, "--steps", options.steps, "number of steps (default: one epoch)");
  app.add_flag_callback(
      "--no-shuffle", [&options] { options.shuffle = false; }, "take the samples in order");
  app.add_option("--seed", options.seed,
                 "of shuffling and initial weights (default: 0, or the checkpoint's)")
      ->transform(wholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->type_name("N");
  app.add_option("--log", options.log, "write a JSON object a step")->type_name("FILE.jsonl");
  addCheckpointOptions(app, options);
  addSaveWeights(app, options);
  app.add_option("--profile", options.profile,
                 "write when each rank carried out each instruction, as a trace for Perfetto")
      ->type_name("FILE.json");
  app.add_flag("--autotune", options.autotunes,
               "time cuBLASLt's algorithms for each product before the first step, once for each "
               "type of GPU, and take the fastest");
  app.add_flag("--processes", options.processes,
               "start the ranks as processes of this machine (default: as threads)");
  app.add_option(
         "--timeout", options.timeoutSeconds,
         "seconds that a rank waits for another (default: 1800; where a step hangs, the longer "
         "of 60 seconds and 20 steps)")
      ->check(secondsOfTimeout())
      ->type_name("S");
}

Status parse(CLI::App &app, std::vector<std::string> arguments, RunOptions &options) {
  std::reverse(arguments.begin(), arguments.end()); // CLI11 wants the last first
  app.parse(std::move(arguments));
  std::vector<std::string> rest = app.remaining();
  if (!rest.empty())
    return {ErrorCategory::Usage, unknownFlag(app, rest.front())};
  for (const std::string &wrong : {findEmptyValue(app), io::findWrongVariable()})
    if (!wrong.empty())
      return {ErrorCategory::Usage, wrong};
  if (options.artifact.empty())
    return {ErrorCategory::Usage, "an artifact is missing: dtc-run OUT.dtc --data FILE"};
  if (options.evalEvery && options.evalData.empty())
    return {ErrorCategory::Usage,
            "--eval-data is missing, which says what to evaluate: --eval-every"};
  bool needsFolder = options.checkpointEvery || options.checkpointKeep || options.resume;
  if (options.checkpointDir.empty() && needsFolder)
    return {ErrorCategory::Usage, std::string("--checkpoint-dir is missing, which says where the "
                                              "checkpoints are: ") +
                                      (options.resume            ? "--resume"
                                       : options.checkpointEvery ? "--checkpoint-every"
                                                                 : "--checkpoint-keep")};
  Result<std::optional<Launch>> launch =
      readLaunch([](const char *name) -> const char * { return std::getenv(name); });
  if (!launch)
    return launch.status();
  options.launch = *launch;
  return Status::ok();
}

/// Ranks that this program started itself have `--processes` too.
Status start(const RunOptions &options, bool isStartedByParent, char **argv) {
  if (!options.processes || isStartedByParent)
    return run(options);
  if (options.launch)
    return {ErrorCategory::Usage,
            "--processes starts all ranks, but a launcher has started this one"};
  return runLocalProcesses(options.artifact, argv);
}

int exitCodeOf(const Status &status) {
  return status.isOk() ? 0 : io::exitCodeOf(status.error().category);
}

int report(const Status &status) {
  if (!status.isOk())
    std::fprintf(stderr, "dtc-run: error: %s\n", io::printableLine(status.message()).c_str());
  return exitCodeOf(status);
}

} // namespace

std::vector<std::string> normalizeArguments(int argc, char **argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  bool isSettings = false; // the words of another program
  for (std::string &argument : arguments) {
    if (argument == "--")
      break;
    if (argument.starts_with("--") && !isSettings)
      std::replace(argument.begin(),
                   argument.begin() + std::min(argument.find('='), argument.size()), '_', '-');
    isSettings = argument == "--plan-from";
  }
  return arguments;
}

std::string findEmptyValue(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    for (const std::string &value : option->results())
      if (value.empty())
        return option->get_name() + ": expected a value, got ''";
  return "";
}

std::string describe(const CLI::ParseError &error, const CLI::App &command) {
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (dynamic_cast<const CLI::ConversionError *>(&error)) // numbers were looked at before
    for (const CLI::Option *flag : command.get_options())
      if (const std::string given = flag->get_name() + " = ";
          message.find(given) != std::string::npos)
        return flag->get_name() + ": expected no value, got '" +
               message.substr(message.find(given) + given.size()) + "'";
  if (!dynamic_cast<const CLI::ArgumentMismatch *>(&error))
    return message;
  for (const CLI::Option *option : command.get_options())
    if (option->count() > 1 && option->get_items_expected_max() == 1) {
      std::string values;
      for (const std::string &value : option->results())
        values += (values.empty() ? "" : ", ") + value;
      return option->get_name() + ": given more than once: " + values;
    }
  const std::string name = message.substr(0, message.find(':'));
  const CLI::Option *option = command.get_option_no_throw(name);
  const int values = option ? option->get_items_expected_min() : 1;
  return name + ": expected " + (values > 1 ? std::to_string(values) + " values" : "a value");
}

Status readArguments(std::vector<std::string> arguments, RunOptions &options) {
  CLI::App app(kAbout, "dtc-run");
  addOptions(app, options);
  try {
    return parse(app, std::move(arguments), options);
  } catch (const CLI::Success &) { // --help, --version
    return Status::ok();
  } catch (const CLI::ParseError &error) {
    return {ErrorCategory::Usage, describe(error, app)};
  }
}

int runCommand(int argc, char **argv) {
  io::occupyStandardStreams();
  io::endSuddenlyWithoutMemory();
  CLI::App app(kAbout, "dtc-run");
  RunOptions options;
  addOptions(app, options);
  std::optional<ParentLink> parent = ParentLink::find();
  try {
    if (Status status = parse(app, normalizeArguments(argc, argv), options); !status.isOk())
      return report(status);
    Status status = start(options, parent.has_value(), argv);
    if (!parent)
      return report(status);
    parent->tell(status);
    return exitCodeOf(status);
  } catch (const CLI::Success &success) {
    return app.exit(success); // --help, --version
  } catch (const CLI::ParseError &error) {
    return report({ErrorCategory::Usage, describe(error, app)});
  } catch (const std::bad_alloc &) {
    return report(failed("out of memory"));
  } catch (const std::exception &error) {
    return report(failed(error.what()));
  }
}

} // namespace dtc::rt
