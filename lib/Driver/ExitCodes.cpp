#include "ExitCodes.h"

#include <utility>

namespace dtc::driver {

using plan::ErrorCategory;
using rt::ExitCode;

static constexpr std::pair<ErrorCategory, ExitCode> kExitCodes[] = {
    {ErrorCategory::Failed, ExitCode::Failed},
    {ErrorCategory::Usage, ExitCode::Usage},
    {ErrorCategory::InputRefused, ExitCode::InputRefused},
    {ErrorCategory::NoPlan, ExitCode::NoFit},
};

ExitCode exitCodeOf(ErrorCategory category) {
  for (auto [known, code] : kExitCodes)
    if (known == category)
      return code;
  return ExitCode::Failed;
}

plan::Error errorOf(const rt::Status &status) {
  for (auto [category, code] : kExitCodes)
    if (code == status.code())
      return {status.message(), category};
  return {status.message(), ErrorCategory::Failed};
}

} // namespace dtc::driver
