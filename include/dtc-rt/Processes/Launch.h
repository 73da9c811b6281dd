// What started this process as one rank of several, and where it finds the others.
//
// Launchers say it in variables of the environment:
//
//   torchrun   RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT [LOCAL_WORLD_SIZE]
//   mpirun     OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}
//   mpiexec    PMI_{RANK,SIZE} MPI_{LOCALRANKID,LOCALNRANKS}
//   srun       SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID
//
// The first of them that is there counts: torchrun runs inside srun, and so may mpirun.
// Beside the others, MASTER_ADDR and MASTER_PORT say where the ranks meet.
#pragma once

#include "dtc-rt/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace dtc::rt {

struct Launch {
  int rank = 0, worldSize = 1;
  int localRank = 0, localWorldSize = 1; ///< among the ranks of this machine
  /// Where rank 0 listens: on the first port from `port` on that is free, of kPortsTried.
  std::string address = "127.0.0.1";
  uint16_t port = 0;
  /// Known to the ranks of this job alone: who connects must prove that it knows it.
  std::string token;
};

/// Where a variable is looked up; null where it isn't set.
using Environment = std::function<const char *(const char *)>;

/// Nothing where no launcher has started this process, or one that started it alone. A set of
/// variables that is partial or contradicts itself is wrong usage.
Result<std::optional<Launch>> readLaunch(const Environment &environment);

/// The variable with the token of a job. Without it a token is made of the job's name, which
/// tells jobs apart and is no secret.
inline constexpr const char *kTokenVariable = "DTC_JOB_TOKEN";

} // namespace dtc::rt
