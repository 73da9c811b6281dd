#include "Configured.h"

#include <re2/re2.h>

namespace dtc::driver {

plan::Error atConfigured(const Options &options, plan::Error error) {
  if (error.category != ErrorCategory::Usage)
    return error;
  static const RE2 kFlag("(--[a-z][a-z0-9-]*)");
  re2::StringPiece rest = error.message;
  for (std::string name; RE2::FindAndConsume(&rest, kFlag, &name);)
    if (auto found = options.configured.find(name); found != options.configured.end())
      return plan::Error{found->second + ": " + error.message};
  return error;
}

} // namespace dtc::driver
