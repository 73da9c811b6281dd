#include "dtc-rt/Checkpoint/RunCheckpoints.h"

#include "dtc-io/PrintableLine.h"
#include "dtc-rt/CPU/ThreadTeam.h"

#include <cstdio>

namespace dtc::rt {
namespace {

/// Rank 0 speaks for all processes, and holds the folder.
bool leads(const RunOptions &options) { return !options.launch || options.launch->rank == 0; }

/// The newest that is intact; none in a folder without checkpoints.
Result<std::optional<CheckpointReader>> openNewest(const CheckpointFolder &folder, bool isLoud) {
  Status newest = Status::ok();
  for (int64_t step : folder.steps()) {
    Result<CheckpointReader> reader = CheckpointReader::open(folder.nameOf(step));
    if (reader && reader->point().step == step) {
      if (!newest.isOk() && isLoud)
        std::fprintf(stderr, "dtc-run: warning: %s; going on from step-%lld\n",
                     io::printableLine(newest.message()).c_str(), static_cast<long long>(step));
      return std::optional(std::move(*reader));
    }
    if (newest.isOk())
      newest = reader ? refused(folder.nameOf(step) + ": is the checkpoint of another step")
                      : reader.status();
  }
  if (!newest.isOk())
    return newest;
  return std::optional<CheckpointReader>();
}

Status checkSettings(const RunOptions &options, const CheckpointReader &reader, int64_t samples) {
  const TrainingPoint &point = reader.point();
  if (options.seed && *options.seed != point.seed)
    return {ErrorCategory::Usage, reader.path() + ": was saved by a run with --seed " +
                                      std::to_string(point.seed) + ", this one has --seed " +
                                      std::to_string(*options.seed)};
  if (options.shuffle != point.shuffle)
    return {ErrorCategory::Usage,
            reader.path() + ": was saved by a run " + (point.shuffle ? "without" : "with") +
                " --no-shuffle, this one is " + (point.shuffle ? "with" : "without")};
  if (point.samples != samples)
    return refused(options.data + ": is not the data of " + reader.path() + ", which had " +
                   std::to_string(point.samples) + " samples: " + std::to_string(samples));
  return Status::ok();
}

/// What the run goes on with; none where there is no checkpoint.
Result<std::optional<CheckpointReader>> openResumed(const RunOptions &options,
                                                    const CheckpointFolder &folder,
                                                    const CheckpointInfo &expected,
                                                    int64_t samples) {
  std::vector<int64_t> steps = folder.steps();
  if (!steps.empty() && !options.resume)
    return Status(ErrorCategory::Usage,
                  options.checkpointDir +
                      ": has checkpoints of another run; add --resume to go on "
                      "from the newest, or give another --checkpoint-dir: step-" +
                      std::to_string(steps.front()));
  auto newest = openNewest(folder, leads(options));
  if (!newest || !*newest)
    return newest;
  if (Status status = (*newest)->checkModel(expected); !status.isOk())
    return status;
  if (Status status = checkSettings(options, **newest, samples); !status.isOk())
    return status;
  return newest;
}

} // namespace

Result<std::optional<RunCheckpoints>> RunCheckpoints::open(const RunOptions &options,
                                                           std::span<const ProgramView> programs,
                                                           const Manifest &manifest,
                                                           int64_t samples) {
  if (options.checkpointDir.empty())
    return std::optional<RunCheckpoints>();
  Result<CheckpointFiles> files = CheckpointFiles::of(programs, manifest);
  if (!files)
    return files.status();
  Result<CheckpointFolder> folder = leads(options) ? CheckpointFolder::claim(options.checkpointDir)
                                                   : CheckpointFolder::visit(options.checkpointDir);
  if (!folder)
    return folder.status();
  auto resumed = openResumed(options, *folder, files->info, samples);
  if (!resumed)
    return resumed.status();
  return std::optional(RunCheckpoints{std::move(*files), std::move(*folder), std::move(*resumed),
                                      options.checkpointEvery, options.checkpointKeep,
                                      availableCpus()});
}

TrainingPoint startOf(const RunOptions &options, const std::optional<RunCheckpoints> &checkpoints,
                      int64_t samples) {
  if (checkpoints && checkpoints->resumed)
    return checkpoints->resumed->point();
  return {0, 0, samples, options.shuffle && options.outputs.empty(), options.seed.value_or(0)};
}

Status RunCheckpoints::read(const fbs::Binding &binding, const Part &part, char *target) const {
  const size_t tensor = files.info.find(binding.name()->str(), stateOf(binding));
  return resumed->read(tensor, files.info.tensors[tensor], part, dtypeOf(binding.dtype()), target);
}

} // namespace dtc::rt
