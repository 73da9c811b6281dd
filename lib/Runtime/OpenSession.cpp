// From the options of a run to a session: everything is opened and checked before a rank starts.
#include "Session.h"

#include "dtc-rt/Files/OutputConflicts.h"
#include "dtc-rt/Platforms.h"
#include "dtc-rt/Program/PackageFormat.h"

#include <algorithm>
#include <numeric>
#include <unistd.h>

namespace dtc::rt {

/// Launchers number the ranks of a machine one after another.
std::vector<int> ranksOfMachine(const RunOptions &options, const Manifest &manifest) {
  int first = 0, count = static_cast<int>(manifest.worldSize);
  if (options.launch) {
    first = options.launch->rank - options.launch->localRank;
    count = std::min(count - first, options.launch->localWorldSize);
  }
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

namespace {

/// More threads than any machine has cores for; a larger world needs several machines.
constexpr int64_t kMostThreads = 4096;

Status checkLaunch(const Launch &launch, const Manifest &manifest) {
  if (launch.worldSize != manifest.worldSize)
    return {ErrorCategory::NoFit,
            "was compiled for other than the " + std::to_string(launch.worldSize) +
                " ranks that were started (start as many, or compile with "
                "--devices " +
                std::to_string(launch.worldSize) + "): " + std::to_string(manifest.worldSize)};
  return Status::ok();
}

Status checkMode(const RunOptions &options, const Manifest &manifest) {
  if (Status status = checkTarget(manifest); !status.isOk())
    return std::move(status).in(options.artifact);
  if (options.launch)
    if (Status status = checkLaunch(*options.launch, manifest); !status.isOk())
      return std::move(status).in(options.artifact);
  if (!options.launch && manifest.worldSize * manifest.threadsPerRank > kMostThreads)
    return {ErrorCategory::NoFit, options.artifact +
                                      ": has more ranks than one machine can run "
                                      "(compile with fewer --devices): " +
                                      std::to_string(manifest.worldSize)};
  if (options.autotunes && !manifest.isForGpu())
    return {ErrorCategory::Usage, options.artifact +
                                      ": --autotune chooses algorithms of GPUs, and this "
                                      "artifact was compiled for: " +
                                      manifest.target};
  bool inference = manifest.loss == LossKind::None;
  if (inference && options.hasData && options.outputs.empty())
    return {ErrorCategory::Usage,
            options.artifact + ": computes outputs alone (--loss none); give --outputs"};
  if (!inference && !options.outputs.empty())
    return {ErrorCategory::Usage,
            options.artifact + ": trains; --outputs needs an artifact compiled with --loss none"};
  if (inference && (options.steps || !options.saveWeights.empty() ||
                    !options.checkpointDir.empty() || !options.evalData.empty()))
    return {ErrorCategory::Usage,
            options.artifact + ": computes outputs alone (--loss none); --steps, --save-weights, "
                               "--checkpoint-dir and --eval-data need an artifact that trains"};
  return checkSaved(manifest, options.savedWeights).in(options.artifact);
}

/// All ranks' arenas, and what they copy for a checkpoint, must fit into the machine's memory:
/// later would be too late. A GPU's own memory is asked for by its device.
Status checkMemory(const std::vector<ProgramView> &programs, const Manifest &manifest,
                   const RunOptions &options, const std::optional<RunCheckpoints> &checkpoints) {
  uint64_t needed = 0;
  for (int rank : ranksOfMachine(options, manifest)) {
    const ProgramView &program = programs[manifest.roleOf(rank).first];
    uint64_t ofDevice = manifest.isForGpu() ? 0 : program->arena_bytes();
    needed += ofDevice + program->host_arena_bytes();
    needed += checkpoints ? checkpoints->files.bytesOf(rank) : 0;
  }
  uint64_t there = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (needed <= there)
    return Status::ok();
  return {ErrorCategory::NoFit, "its ranks need more memory than this machine's " +
                                    std::to_string(there) + " bytes: " + std::to_string(needed)};
}

Result<std::vector<ProgramView>> openPrograms(const Package &package) {
  const Manifest &manifest = package.manifest();
  std::vector<ProgramView> programs;
  for (size_t role = 0; role < manifest.roles.size(); ++role) {
    const std::string &member = manifest.roles[role].program;
    Result<std::span<const char>> bytes = package.read(member);
    if (!bytes)
      return bytes.status();
    Result<ProgramView> program = ProgramView::open(*bytes, manifest, role);
    if (!program)
      return std::move(program.status()).in(package.path() + ": " + member);
    programs.push_back(*program);
  }
  return programs;
}

/// The first role that has something speaks for it.
Result<Speakers> findSpeakers(const std::vector<ProgramView> &programs, const Package &package) {
  using fbs::BindingKind;
  const Manifest &manifest = package.manifest();
  Speakers result;
  result.parameters.assign(manifest.parameters.size(), -1);
  result.outputs.assign(manifest.outputs.size(), -1);
  for (int role = static_cast<int>(programs.size()); role-- > 0;) {
    for (const fbs::Binding *binding : programs[role].bindings(
             {BindingKind::Parameter, BindingKind::Buffer, BindingKind::Master}))
      result
          .parameters[manifest.findParameter(binding->name()->str()) - manifest.parameters.data()] =
          role;
    for (const fbs::Binding *binding : programs[role].bindings({BindingKind::Output}))
      for (size_t i = 0; i < manifest.outputs.size(); ++i)
        if (manifest.outputs[i].name == binding->name()->str())
          result.outputs[i] = role;
    for (auto [kind, speaker] : {std::pair(BindingKind::Loss, &result.loss),
                                 {BindingKind::GradNorm, &result.gradNorm},
                                 {BindingKind::NonFinite, &result.nonFinite}})
      if (programs[role].binding(kind))
        *speaker = role;
  }
  if (manifest.loss != LossKind::None && result.loss < 0)
    return package.wrong("trains without a loss");
  for (size_t i = 0; i < result.outputs.size(); ++i)
    if (result.outputs[i] < 0)
      return package.wrong("does not compute every output, lacks: " + manifest.outputs[i].name);
  return result;
}

Status loadCode(Platform &platform, const Package &package) {
  std::vector<CodeFile> files;
  for (const std::string &member : package.manifest().code) {
    Result<std::span<const char>> bytes = package.read(member);
    if (!bytes)
      return bytes.status();
    files.push_back({member.substr(std::string_view(kCodeFolder).size()), *bytes});
  }
  if (files.empty())
    return Status::ok();
  return platform.load(files).in(package.path());
}

/// Nothing that a run reads may be written by it: `--log` onto the data would empty them.
Status checkFiles(const RunOptions &options, const Package &package) {
  std::vector<NamedFile> inputs = {{"the artifact", options.artifact},
                                   {"--data", options.data},
                                   {"--eval-data", options.evalData}};
  for (const WeightFile &file : package.manifest().weights.files)
    inputs.push_back({"the artifact's weights", pathOf(package, file.path)});
  NamedFile outputs[] = {{"--log", options.log},
                         {"--save-weights", options.saveWeights},
                         {"--profile", options.profile},
                         {"--outputs", options.outputs}};
  Status status = checkOutputConflicts(inputs, outputs);
  return status.isOk() ? checkOutputFolders(std::span(outputs).last(2)) : status; // late ones
}

} // namespace

Result<std::unique_ptr<Session>> openSession(RunOptions options) {
  Result<Package> opened = Package::open(options.artifact);
  if (!opened)
    return opened.status();
  auto package = std::make_unique<const Package>(std::move(*opened));
  const Manifest &manifest = package->manifest();
  if (Status status = checkMode(options, manifest); !status.isOk())
    return status;
  if (options.hasData && options.data.empty()) {
    if (manifest.data.empty())
      return Status(ErrorCategory::Usage,
                    "--data is missing, and there is none in the artifact: dtc-run " +
                        options.artifact + " --data FILE");
    options.data = pathOf(*package, manifest.data);
  }
  if (Status status = checkFiles(options, *package); !status.isOk())
    return status;
  int64_t ranksHere = options.launch ? 1 : manifest.worldSize;
  Result<std::unique_ptr<Platform>> platform = openPlatform(manifest, ranksHere);
  if (!platform)
    return std::move(platform.status()).in(options.artifact);
  Result<std::vector<ProgramView>> programs = openPrograms(*package);
  if (!programs)
    return programs.status();
  Result<Speakers> speakers = findSpeakers(*programs, *package);
  if (!speakers)
    return speakers.status();
  if (Status status = loadCode(**platform, *package); !status.isOk())
    return status;
  Result<DataSet> data = options.data.empty() ? DataSet() : DataSet::open(options.data, manifest);
  if (!data)
    return data.status();
  auto evaluation = Evaluation::open(options, *programs, manifest);
  if (!evaluation)
    return evaluation.status();
  auto checkpoints = RunCheckpoints::open(options, *programs, manifest, data->numSamples());
  if (!checkpoints)
    return checkpoints.status();
  if (Status status = checkMemory(*programs, manifest, options, *checkpoints); !status.isOk())
    return std::move(status).in(options.artifact);
  TrainingPoint start = startOf(options, *checkpoints, data->numSamples());
  Result<WeightReader> weights = WeightReader::open(*package, start.seed);
  if (!weights)
    return weights.status();
  SampleOrder order(start.samples, start.shuffle, start.seed);
  return std::unique_ptr<Session>(new Session{options, std::move(package), std::move(*programs),
                                              std::move(*speakers), std::move(*platform),
                                              std::move(*data), std::move(*weights), order, start,
                                              std::move(*checkpoints), std::move(*evaluation)});
}

} // namespace dtc::rt
