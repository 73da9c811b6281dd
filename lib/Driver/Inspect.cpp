// dtc inspect: what is in an artifact.
#include "Commands.h"
#include "Exchanges.h"
#include "RunProfile.h"
#include "dtc/Driver/Diagnostics.h"

#include "dtc-rt/Program/Package.h"
#include "dtc-rt/Program/ProgramView.h"
#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Report/Artifact.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace dtc::driver {

using nlohmann::ordered_json;

static ErrorCategory fail(const rt::Status &status) { return fail(status.error()); }

using Programs = std::vector<rt::ProgramView>;

static rt::Result<Programs> openPrograms(const rt::Package &package) {
  Programs programs;
  for (size_t role = 0; role < package.manifest().roles.size(); ++role) {
    auto bytes = package.read(package.manifest().roles[role].program);
    if (!bytes)
      return bytes.status();
    auto program = rt::ProgramView::open(*bytes, package.manifest(), role);
    if (!program)
      return std::move(program.status()).in(package.path());
    programs.push_back(*program);
  }
  return programs;
}

/// The kernels that any role uses, in order of first use.
static ordered_json kernelsOf(const Programs &programs, const std::string &arch) {
  ordered_json kernels = ordered_json::array();
  std::set<std::string> known;
  for (const rt::ProgramView &program : programs)
    for (const flatbuffers::String *name : *program->kernels())
      if (known.insert(name->str()).second)
        kernels.push_back({{"name", name->str()}, {"arch", arch}});
  return kernels;
}

/// Axis names by dimension of every parameter, as the first role that has it places it.
static std::map<std::string, ordered_json> shardingsOf(const Programs &programs) {
  std::map<std::string, ordered_json> shardings;
  using rt::fbs::BindingKind;
  for (const rt::ProgramView &program : programs) {
    for (const rt::fbs::Binding *binding :
         program.bindings({BindingKind::Parameter, BindingKind::Buffer})) {
      ordered_json dims = ordered_json::array();
      for (const rt::AxisList &axes : rt::placementOf(*binding).dims) {
        ordered_json names = ordered_json::array();
        for (int32_t axis : axes)
          names.push_back(program->mesh_axes()->Get(axis)->name()->str());
        dims.push_back(std::move(names));
      }
      shardings.emplace(binding->name()->str(), std::move(dims));
    }
  }
  return shardings;
}

/// The manifest, which was checked before, with the plan in the order of its settings. Weights are
/// an object with a key for each, which ordered objects would look up one by one.
static ordered_json manifestOf(const std::string &text) {
  const auto unordered = nlohmann::json::parse(text);
  ordered_json manifest = ordered_json::object(), settings = ordered_json::object();
  for (auto &[key, value] : unordered.items())
    if (key != "weights" && key != "plan")
      manifest[key] = value;
  const nlohmann::json &plan = unordered.at("plan");
  for (const plan::Setting &setting : plan::settings())
    if (plan.contains(setting.name))
      settings[setting.name] = plan[setting.name];
  manifest["plan"] = std::move(settings);
  return manifest;
}

/// Inputs as `dtc-run --data` wants them.
static ordered_json inputsOf(const ordered_json &manifest) {
  ordered_json inputs = ordered_json::array();
  for (const ordered_json &input : manifest.at("inputs"))
    inputs.push_back(
        {{"name", input.at("name")}, {"shape", input.at("shape")}, {"dtype", input.at("dtype")}});
  return inputs;
}

/// The facts of the contract; throws where the manifest lacks one.
static rt::Result<ordered_json> factsOf(const rt::Package &package) {
  const ordered_json manifest = manifestOf(package.manifestText());
  auto programs = openPrograms(package);
  if (!programs)
    return programs.status();
  std::map<std::string, ordered_json> shardings = shardingsOf(*programs);
  ordered_json parameters = ordered_json::array();
  for (const ordered_json &parameter : manifest.at("parameters"))
    parameters.push_back({{"name", parameter.at("name")},
                          {"shape", parameter.at("shape")},
                          {"dtype", parameter.at("dtype")},
                          {"sharding", shardings[parameter.at("name").get<std::string>()]}});
  ordered_json facts;
  for (const char *key : {"target", "world_size", "plan"})
    facts[key] = manifest.at(key);
  for (const char *key : {"loss", "optimizer", "learning_rate", "global_batch", "sequence", "data"})
    facts[key] = manifest.value(key, ordered_json());
  facts["padded_samples"] = manifest.value("padded_samples", 0);
  facts["inputs"] = inputsOf(manifest);
  facts["parameters"] = parameters;
  facts["kernels"] = kernelsOf(*programs, manifest.at("processor").at("arch"));
  facts["library_calls"] = manifest.at("library_calls");
  facts["epilogues"] = manifest.value("epilogues", ordered_json::object());
  facts["tf32"] = std::any_of(programs->begin(), programs->end(),
                              [](const rt::ProgramView &program) { return program->tf32(); });
  for (const char *key : {"collectives", "arena_bytes"})
    facts[key] = manifest.at(key);
  facts["host_bytes"] = ordered_json::array();
  for (const rt::ProgramView &program : *programs)
    facts["host_bytes"].push_back(program->host_arena_bytes());
  Exchanges exchanges = exchangesOf(*programs, package.manifest());
  facts["exchanges"] = std::move(exchanges.all);
  facts["in_flight"] = std::move(exchanges.besideComputation);
  return facts;
}

/// What the artifact's plan predicts of a step and rank.
static ordered_json predictionOf(const rt::Package &package) {
  ordered_json predicted = manifestOf(package.manifestText()).value("predicted", ordered_json());
  auto secondsOf = [&](const char *key) {
    return predicted.contains(key) && predicted[key].is_number() ? predicted[key].get<double>() : 0;
  };
  if (!predicted.is_object() || !predicted.contains("exposed_communication_s"))
    return predicted;
  double step = secondsOf("step_time_s"), waiting = step * secondsOf("bubble_fraction");
  predicted["waiting_s"] = waiting;
  predicted["computing_s"] = step - waiting - secondsOf("exposed_communication_s");
  return predicted;
}

static Failure compareRun(const rt::Package &package, const InspectOptions &options,
                          const Answer &answer) {
  auto measured = summarizeProfile(options.compare);
  if (!measured)
    return fail(measured.status());
  ordered_json predicted = predictionOf(package);
  if (options.json)
    answer.out << ordered_json{{"predicted", predicted}, {"measured", *measured}}.dump(2) << "\n";
  else
    answer.out << comparisonText(predicted, *measured);
  return std::nullopt;
}

Failure inspect(const InspectOptions &options, const Answer &answer) {
  auto package = rt::Package::open(options.artifact);
  if (!package)
    return fail(package.status());
  try {
    if (!options.compare.empty())
      return compareRun(*package, options, answer);
    auto facts = factsOf(*package);
    if (!facts)
      return fail(facts.status());
    answer.out << (options.json ? facts->dump(2) + "\n" : report::artifactText(*facts));
    return std::nullopt;
  } catch (const nlohmann::json::exception &error) {
    return fail(package->wrong(std::string("manifest.json: ") + error.what()));
  }
}

} // namespace dtc::driver
