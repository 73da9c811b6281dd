// Reading plan and cluster files whole.
#pragma once

#include "dtc/Plan/Plan/Result.h"

#include <string>

namespace dtc::plan {

/// The text of a file of ours, as a plan or a cluster; `what` is the word for it in the error.
Result<std::string> readText(const std::string &path, const std::string &what);

} // namespace dtc::plan
