#include "dtc-io/ExitCodes.h"

#include <csignal>
#include <utility>

namespace dtc::io {

/// A shell says 128 + n for a program that signal n ended.
static constexpr std::pair<ErrorCategory, int> kExitCodes[] = {
    {ErrorCategory::Failed, 1},
    {ErrorCategory::Usage, 2},
    {ErrorCategory::InputRefused, 3},
    {ErrorCategory::NoFit, 4},
    {ErrorCategory::RankLost, 5},
    {ErrorCategory::NotFinite, 6},
    {ErrorCategory::Saved, 75},
    {ErrorCategory::Interrupted, 128 + SIGINT},
    {ErrorCategory::Terminated, 128 + SIGTERM},
    {ErrorCategory::Notified, 128 + SIGUSR1},
};

int exitCodeOf(ErrorCategory category) {
  for (auto [known, code] : kExitCodes)
    if (known == category)
      return code;
  return 1;
}

ErrorCategory categoryOf(int exitCode) {
  for (auto [category, code] : kExitCodes)
    if (code == exitCode)
      return category;
  return ErrorCategory::Failed;
}

} // namespace dtc::io
