// What each rank of some says, as text, brought to all of them.
#pragma once

#include "dtc-rt/Communicator.h"

#include <string>

namespace dtc::rt::cuda {

/// The texts of all `members`, of which the caller is one, in their order.
Result<std::vector<std::string>> gatherTexts(Communicator &communicator,
                                             const std::vector<int> &members, std::string own);

} // namespace dtc::rt::cuda
