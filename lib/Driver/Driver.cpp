#include "dtc/Driver/Driver.h"

#include "Commands.h"
#include "Flags/CommandLine.h"
#include "Flags/Configured.h"

#include "dtc-io/Environment.h"
#include "dtc-io/ExitCodes.h"
#include "dtc-io/StandardStreams.h"
#include "dtc-io/SuddenEnd.h"
#include "dtc-rt/CommandLine.h"
#include "dtc-rt/Program/PackageFormat.h"
#include "dtc/Driver/Outcome.h"
#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Target/Targets.h"

#include "llvm/Support/ErrorHandling.h"

#include <csignal>
#include <iostream>
#include <sstream>

namespace dtc::driver {

/// What is wrong with the name of the command, or that there is none.
static std::string commandError(const CLI::App &app) {
  std::vector<std::string> known;
  std::string list;
  for (const CLI::App *command : app.get_subcommands(/*filter=*/{})) {
    known.push_back(command->get_name());
    list += (list.empty() ? "" : ", ") + known.back();
  }
  for (const std::string &word : app.remaining())
    if (!word.starts_with("-")) {
      std::string close = plan::nearest(word, known);
      return "unknown command " + word +
             (close.empty() ? ", known are " + list : " (did you mean " + close + "?)");
    }
  return "a command is required: " + list;
}

/// An unknown flag names the nearest known one. It may stand for what is required.
static ErrorCategory usageError(const CLI::App &app, const Options &options,
                                const CLI::ParseError &error) {
  const CLI::App *command = &app;
  for (const CLI::App *sub : app.get_subcommands())
    command = sub;
  std::string message = rt::describe(error, *command);
  const bool lacks = dynamic_cast<const CLI::RequiredError *>(&error);
  if (lacks && command == &app)
    message = commandError(app);
  else if (lacks || dynamic_cast<const CLI::ExtrasError *>(&error)) {
    std::vector<std::string> known;
    for (const CLI::Option *option : command->get_options())
      for (auto &name : option->get_lnames())
        known.push_back("--" + name);
    for (std::string extra : command->remaining(true)) {
      extra = extra.substr(0, extra.find('='));
      if (!extra.starts_with("-")) {
        message = "unexpected argument: " + extra;
        continue;
      }
      std::string close = plan::nearest(extra, known);
      message = "unknown flag " + extra + (close.empty() ? "" : " (did you mean " + close + "?)");
      break;
    }
  }
  return fail(atConfigured(options, {message, ErrorCategory::Usage}));
}

/// LLVM's own memory comes from malloc, whose failure it reports here.
static void outOfMemory(void *, const char *, bool) {
  io::endSuddenly(ErrorCategory::Failed, "", "out of memory");
}

namespace {

/// The commands with what their flags fill in.
struct CommandLine {
  CLI::App app{"dtc compiles a model into a parallel training program", "dtc"};
  RawOptions raw;
  InspectOptions inspect;
  CalibrateOptions calibrate;
  RawEstimate estimate;
  CLI::App *compile = nullptr, *plan = nullptr, *inspectCommand = nullptr,
           *calibrateCommand = nullptr, *estimateCommand = nullptr;

  CommandLine() {
    app.set_version_flag("--version", std::string("dtc ") + DTC_VERSION);
    app.require_subcommand(1);
    raw.knownArchitectures = target::find("cuda")->architectures();
    compile = app.add_subcommand("compile", "compile a model into an artifact");
    declareFlags(*compile, raw, {.lowering = true});
    plan = app.add_subcommand("plan", "plan only: needs no weights");
    declareFlags(*plan, raw, {.lowering = false});
    inspectCommand = app.add_subcommand("inspect", "show what is in an artifact");
    inspectCommand->add_option("artifact", inspect.artifact, "the artifact")->required();
    inspectCommand->add_flag("--json", inspect.json, "print JSON");
    inspectCommand
        ->add_option("--compare", inspect.compare,
                     "lay a run's profile (dtc-run --profile) over what was predicted")
        ->type_name("RUN.json");
    estimateCommand = app.add_subcommand("estimate", "how many devices a model needs for what");
    declareEstimateFlags(*estimateCommand, estimate);
    calibrateCommand = app.add_subcommand("calibrate", "measure this machine");
    calibrateCommand->add_option("-o,--output", calibrate.output, "cluster file to write")
        ->required();
    calibrateCommand->add_option("--target", calibrate.target, "what is measured")
        ->check(CLI::Validator(
            [](const std::string &text) {
              return text == "cpu" || text == "cuda" ? "" : "expected cpu|cuda, got '" + text + "'";
            },
            ""))
        ->capture_default_str();
  }

  /// CLI11 wants the arguments last first.
  void parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
    for (const CLI::App *command : app.get_subcommands())
      if (std::string wrong = rt::findEmptyValue(*command); !wrong.empty())
        throw CLI::ValidationError(wrong);
    if (std::string wrong = io::findWrongVariable(); !wrong.empty())
      throw CLI::ValidationError(wrong);
  }

  void checkModel() const {
    auto check = [](const CLI::App &command, const std::string &model) {
      if (auto wrong = command.parsed() ? wrongModel(command, model) : std::nullopt)
        throw CLI::ValidationError(*wrong);
    };
    check(*compile, raw.options.model);
    check(*plan, raw.options.model);
    check(*estimateCommand, estimate.common.options.model);
  }
};

} // namespace

/// The arguments with the flags of `--config` in front of those typed. Typed flags win: one that is
/// also configured is left out.
static std::vector<std::string> withConfigured(const std::vector<std::string> &arguments,
                                               const std::vector<ConfiguredFlag> &flags,
                                               const CLI::App &command, Options &options) {
  std::vector<std::string> result = {arguments.front()};
  for (const auto &[name, argument, place] : flags) {
    if (!name.empty() && command.count(name) > 0)
      continue;
    result.push_back(argument);
    options.configured.try_emplace(name, place);
  }
  result.insert(result.end(), arguments.begin() + 1, arguments.end());
  return result;
}

/// Parses, and again with the flags of `--config`.
static Outcome<std::unique_ptr<CommandLine>> parse(const std::vector<std::string> &arguments,
                                                   std::ostream &out) {
  auto line = std::make_unique<CommandLine>();
  try {
    line->parse(arguments);
    if (line->raw.config.empty()) {
      line->checkModel();
      return line;
    }
    auto &command = line->compile->parsed() ? *line->compile : *line->plan;
    auto flags = readConfiguration(line->raw.config, command);
    if (!flags)
      return fail(flags.error());
    auto again = std::make_unique<CommandLine>();
    auto merged = withConfigured(arguments, *flags, command, again->raw.options);
    line = std::move(again);
    line->parse(merged);
    line->checkModel();
    return line;
  } catch (const CLI::Success &help) {
    line->app.exit(help, out, std::cerr);
    return std::unique_ptr<CommandLine>();
  } catch (const CLI::ParseError &error) {
    return usageError(line->app, line->raw.options, error);
  }
}

/// A model that can't be opened is a cause before all that the other flags lack.
static Outcome<Options> resolveOptions(CommandLine &line) {
  if (auto missing = missingModel(line.raw.options.model))
    return fail(*missing);
  bool compiling = line.compile->parsed();
  auto options = resolve(compiling ? *line.compile : *line.plan, line.raw, compiling);
  if (!options)
    return fail(atConfigured(line.raw.options, options.error()));
  return std::move(*options);
}

/// The model of --hf as a file, which lives as long as what is returned.
static Outcome<std::optional<HuggingFaceModel>> writeHuggingFace(const HuggingFaceFlags &flags,
                                                                 Options &options, bool compiling) {
  if (flags.path.empty())
    return std::optional<HuggingFaceModel>();
  const bool withWeights =
      compiling && options.until == Phase::End && options.weights.empty() && !options.init;
  auto model = HuggingFaceModel::write(flags, withWeights);
  if (!model)
    return model.category();
  options.model = model->path();
  if (options.modelName.empty())
    options.modelName = flags.path;
  return std::optional(std::move(*model));
}

static Failure dispatch(CommandLine &line, const Answer &answer) {
  if (line.inspectCommand->parsed())
    return inspect(line.inspect, answer);
  if (line.calibrateCommand->parsed())
    return calibrate(line.calibrate, answer);
  if (line.estimateCommand->parsed()) {
    if (auto missing = missingModel(line.estimate.common.options.model))
      return fail(*missing);
    auto options = resolveEstimate(*line.estimateCommand, line.estimate);
    if (!options)
      return fail(options.error());
    auto written = writeHuggingFace(line.estimate.common.huggingFace, options->base, false);
    return written ? estimate(*options, answer) : written.category();
  }
  auto options = resolveOptions(line);
  if (!options)
    return options.category();
  const bool compiling = line.compile->parsed();
  auto written = writeHuggingFace(line.raw.huggingFace, *options, compiling);
  if (!written)
    return written.category();
  return compiling ? compile(*options, answer) : planOnly(*options, answer);
}

static Failure run(const std::vector<std::string> &arguments, const Answer &answer) {
  try {
    auto line = parse(arguments, answer.out);
    if (!line)
      return line.category();
    return *line ? dispatch(**line, answer) : std::nullopt; // --help, --version
  } catch (const std::bad_alloc &) {
    return fail({"out of memory", ErrorCategory::Failed});
  } catch (const std::exception &error) {
    return fail({error.what(), ErrorCategory::Failed});
  }
}

Failure run(const std::vector<std::string> &arguments, std::ostream &out) {
  return run(arguments, {out, /*processEnds=*/false});
}

/// Leaves no file half-written where a signal ends the process. One that is ignored stays so.
static void endCleanlyBySignals() {
  auto end = [](int number) {
    io::removeUnfinishedFiles();
    ::raise(number); // with what it does by default, once this handler returns
  };
  for (int number : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction before{}, action{};
    action.sa_handler = end;
    action.sa_flags = SA_RESETHAND;
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      ::sigaction(number, &action, nullptr);
  }
}

int run(int argc, char **argv) {
  io::occupyStandardStreams();
  endCleanlyBySignals();
  io::endSuddenlyWithoutMemory();
  llvm::install_bad_alloc_error_handler(outOfMemory);
  Failure failure = run(rt::normalizeArguments(argc, argv), {std::cout, /*processEnds=*/true});
  if (!std::cout.flush() && !failure) // results that are lost, as on a full disk
    failure = fail({"stdout: cannot write the results", ErrorCategory::Failed});
  return failure ? io::exitCodeOf(*failure) : 0;
}

Outcome<Options> readPlanFlags(const std::vector<std::string> &flags) {
  std::vector<std::string> arguments = {"plan"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::ostringstream help; // nobody asked for it
  auto line = parse(arguments, help);
  if (!line)
    return line.category();
  if (!*line)
    return fail({"--help is for the command line", ErrorCategory::Usage});
  if (!(*line)->raw.huggingFace.path.empty())
    return fail({"--hf is for the command line; dtc.from_hf makes a model of a folder",
                 ErrorCategory::Usage});
  return resolveOptions(**line);
}

} // namespace dtc::driver
