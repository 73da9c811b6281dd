// Executes a rank's program: its functions in the order of the schedule.
//
// Instructions are prepared once (library primitives made, symbols and groups
// looked up); a step then walks through lists of them.
#pragma once

#include "dtc-rt/CPU/Arena.h"
#include "dtc-rt/CPU/CodeObject.h"
#include "dtc-rt/Communicator.h"
#include "dtc-rt/ProgramView.h"
#include "dtc-rt/CPU/ThreadTeam.h"

#include <memory>

namespace dtc::rt {

/// What an instruction needs of its rank. Outlives the executor.
struct RankContext {
  const Manifest &manifest;
  ProgramView program;
  const CodeObject &code;
  Communicator &communicator;
  ThreadTeam &team;
  char *arena = nullptr, *hostArena = nullptr;
  std::vector<Group> groups = {}; ///< the rank's own of each of the program's; made by the executor
};

class Instruction {
public:
  virtual ~Instruction() = default;
  virtual Status run(const fbs::Call &call) = 0;
};

class Executor {
public:
  /// Call on the rank's thread.
  static Result<Executor> create(const RankContext &context);

  /// One step: the whole schedule.
  Status runStep();

private:
  explicit Executor(const RankContext &context) : context(context) {}
  RankContext context;
  std::vector<std::vector<std::unique_ptr<Instruction>>> functions;
};

} // namespace dtc::rt
