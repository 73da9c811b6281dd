#include "dtc-rt/Processes/Launch.h"

#include <algorithm>
#include <charconv>
#include <span>

namespace dtc::rt {
namespace {

constexpr const char *kTorchrun[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
                                     "MASTER_PORT"};
constexpr const char *kLoopback = "127.0.0.1";
/// Ports that jobs without MASTER_PORT meet at: below those that systems give out themselves.
constexpr uint64_t kFirstPort = 20000, kNumPorts = 10000;

/// The variables of a launcher that says no address; null where it has none for that.
struct Launcher {
  const char *rank, *worldSize;
  const char *localRanks[2];
  const char *localSizes[2];
  const char *jobs[2]; ///< what tells two jobs of a user apart
};
constexpr Launcher kOpenMpi = {"OMPI_COMM_WORLD_RANK",
                               "OMPI_COMM_WORLD_SIZE",
                               {"OMPI_COMM_WORLD_LOCAL_RANK", nullptr},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
                               {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}};
constexpr Launcher kPmi = {"PMI_RANK",
                           "PMI_SIZE",
                           {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                           {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
                           {"PMI_JOBID", "PMI_PORT"}};
constexpr Launcher kSlurm = {"SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS",
                             {"SLURM_LOCALID", nullptr},
                             {nullptr, nullptr},
                             {"SLURM_JOB_ID", "SLURM_STEP_ID"}};

Status wrong(std::string message) { return {ErrorCategory::Usage, std::move(message)}; }

class Reader {
public:
  explicit Reader(const Environment &environment) : environment(environment) {}

  bool has(const char *name) const { return name && environment(name); }
  std::string text(const char *name) const { return has(name) ? environment(name) : ""; }
  /// The first of these that is set; null where none is.
  const char *firstOf(std::span<const char *const> names) const {
    auto found = std::ranges::find_if(names, [&](const char *name) { return has(name); });
    return found == names.end() ? nullptr : *found;
  }
  /// `bound`: the variable by which it is at most `most`, or null.
  Result<int> number(const char *name, int least, int most, const char *bound = nullptr) const {
    std::string value = text(name);
    int result = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < least ||
        result > most)
      return wrong(std::string(name) + " is not a number from " + std::to_string(least) + " to " +
                   std::to_string(most) +
                   (bound ? " (" + std::string(bound) + "=" + text(bound) + ")" : "") + ": " +
                   value);
    return result;
  }

private:
  const Environment &environment;
};

constexpr int kMostRanks = 1 << 20;

/// Rank, sizes and local rank, which must agree.
Result<Launch> readPlace(const Reader &reader, const char *rank, const char *worldSize,
                         const char *localRank, const char *localSize) {
  Launch launch;
  auto read = [&](const char *name, int least, int most, int &into, const char *bound = nullptr) {
    Result<int> value = reader.number(name, least, most, bound);
    if (!value)
      return value.status();
    into = *value;
    return Status::ok();
  };
  if (Status status = read(worldSize, 1, kMostRanks, launch.worldSize); !status.isOk())
    return status;
  if (Status status = read(rank, 0, launch.worldSize - 1, launch.rank, worldSize); !status.isOk())
    return status;
  launch.localWorldSize = launch.worldSize;
  if (localSize)
    if (Status status = read(localSize, 1, launch.worldSize, launch.localWorldSize, worldSize);
        !status.isOk())
      return status;
  const int most = std::min(launch.localWorldSize - 1, launch.rank);
  const char *bound = most < launch.localWorldSize - 1 ? rank : localSize ? localSize : worldSize;
  if (Status status = read(localRank, 0, most, launch.localRank, bound); !status.isOk())
    return status;
  return launch;
}

Status readAddress(const Reader &reader, Launch &launch) {
  Result<int> port = reader.number("MASTER_PORT", 1, 65535);
  if (!port)
    return port.status();
  launch.port = static_cast<uint16_t>(*port);
  launch.address = reader.text("MASTER_ADDR");
  if (launch.address.empty())
    return wrong("MASTER_ADDR is empty");
  return Status::ok();
}

/// torchrun's agent may listen at MASTER_PORT itself: its ranks meet behind it.
Result<Launch> readTorchrun(const Reader &reader) {
  for (const char *name : kTorchrun)
    if (!reader.has(name))
      return wrong(std::string(name) + " is missing: a launcher sets RANK, WORLD_SIZE, LOCAL_RANK, "
                                       "MASTER_ADDR and MASTER_PORT, or none of them");
  const char *localSize = reader.has("LOCAL_WORLD_SIZE") ? "LOCAL_WORLD_SIZE" : nullptr;
  Result<Launch> launch = readPlace(reader, "RANK", "WORLD_SIZE", "LOCAL_RANK", localSize);
  if (!launch)
    return launch;
  if (Status status = readAddress(reader, *launch); !status.isOk())
    return status;
  if (localSize && launch->localWorldSize == launch->worldSize)
    launch->address = kLoopback;
  if (reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True" && launch->port < 65535)
    ++launch->port;
  launch->token = "torchrun " + reader.text("TORCHELASTIC_RUN_ID") + " " +
                  reader.text("TORCHELASTIC_RESTART_COUNT") + " " + reader.text("MASTER_PORT");
  return launch;
}

/// FNV-1a, which is the same everywhere.
uint64_t hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : text)
    hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

/// The ranks of a launcher that says no address. On one machine they meet at its loopback.
Result<Launch> readLauncher(const Reader &reader, const Launcher &from) {
  for (const char *name : {from.rank, from.worldSize})
    if (!reader.has(name))
      return wrong(std::string(name) + " is missing beside " +
                   (name == from.rank ? from.worldSize : from.rank));
  const char *localRank = reader.firstOf(from.localRanks);
  const char *localSize = reader.firstOf(from.localSizes);
  if (!localRank && reader.has(kSlurm.localRanks[0]))
    localRank = kSlurm.localRanks[0];
  if (!localRank)
    return wrong(std::string(from.localRanks[0]) + " is missing beside " + from.rank);
  Result<Launch> launch = readPlace(reader, from.rank, from.worldSize, localRank, localSize);
  if (!launch)
    return launch;
  bool isOneMachine = localSize ? launch->localWorldSize == launch->worldSize
                                : reader.text("SLURM_STEP_NUM_NODES") == "1";
  launch->token =
      std::string(from.rank) + " " + reader.text(from.jobs[0]) + " " + reader.text(from.jobs[1]);
  launch->port = static_cast<uint16_t>(kFirstPort + hashOf(launch->token) % kNumPorts);
  for (auto [name, other] :
       {std::pair("MASTER_ADDR", "MASTER_PORT"), {"MASTER_PORT", "MASTER_ADDR"}})
    if (!reader.has(name) && (reader.has(other) || !isOneMachine))
      return wrong(std::string(name) + " is missing: with ranks on several machines, MASTER_ADDR "
                                       "and MASTER_PORT say where rank 0 listens");
  if (reader.has("MASTER_ADDR"))
    if (Status status = readAddress(reader, *launch); !status.isOk())
      return status;
  if (isOneMachine)
    launch->address = kLoopback;
  return launch;
}

/// The launchers that started this process itself, not the one around them.
Result<std::optional<Launch>> readInner(const Reader &reader) {
  bool hasTorchrun = std::ranges::any_of(std::span(kTorchrun).first(3),
                                         [&](const char *name) { return reader.has(name); });
  auto isThere = [&](const Launcher &launcher) {
    return reader.has(launcher.rank) || reader.has(launcher.worldSize);
  };
  auto given = [](Result<Launch> launch) -> Result<std::optional<Launch>> {
    if (!launch)
      return launch.status();
    return std::optional(*launch);
  };
  if (hasTorchrun)
    return given(readTorchrun(reader));
  if (isThere(kOpenMpi) && isThere(kPmi))
    for (auto [one, other] :
         {std::pair(kOpenMpi.rank, kPmi.rank), {kOpenMpi.worldSize, kPmi.worldSize}})
      if (reader.text(one) != reader.text(other))
        return wrong(std::string(one) + " and " + other +
                     " contradict each other: " + reader.text(one) + ", " + reader.text(other));
  for (const Launcher *launcher : {&kOpenMpi, &kPmi})
    if (isThere(*launcher))
      return given(readLauncher(reader, *launcher));
  // A batch script has SLURM's other variables too, without being one of several tasks.
  if (reader.has(kSlurm.worldSize))
    return given(readLauncher(reader, kSlurm));
  for (const char *name : {"MASTER_ADDR", "MASTER_PORT"})
    if (reader.has(name))
      return given(readTorchrun(reader));
  return std::optional<Launch>();
}

} // namespace

Result<std::optional<Launch>> readLaunch(const Environment &environment) {
  Reader reader(environment);
  Result<std::optional<Launch>> launch = readInner(reader);
  if (!launch || !*launch)
    return launch;
  if ((*launch)->worldSize == 1)
    return std::optional<Launch>();
  if (reader.has(kTokenVariable))
    (*launch)->token = reader.text(kTokenVariable);
  return launch;
}

} // namespace dtc::rt
