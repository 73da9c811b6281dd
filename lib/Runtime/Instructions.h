// Instructions of a program as what a device is asked to do.
#pragma once

#include "dtc-rt/Operations.h"
#include "dtc-rt/Program/ProgramView.h"

#include <optional>

namespace dtc::rt {

/// A rank of a role: by its number in the world, and its position in the role.
struct RankPlace {
  int rank = 0;
  size_t position = 0;
};

struct InstructionSpec {
  std::optional<OperationSpec> operation; ///< none: the rank takes no part
  std::vector<fbs::Ref> refs;             ///< of the operation's addresses, in its order
};

/// What an instruction is for a rank.
InstructionSpec specOf(const fbs::Program &program, const fbs::Instruction &instruction,
                       const RankPlace &place);

/// Its name, or the kind of its operation.
std::string nameOf(const fbs::Instruction &instruction);

} // namespace dtc::rt
