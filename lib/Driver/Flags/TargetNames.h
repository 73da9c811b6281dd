// The words of --target, which are the names of the targets (Target/Targets.h).
#pragma once

#include "dtc/Driver/Options.h"

#include <initializer_list>
#include <utility>

namespace dtc::driver {

inline constexpr std::initializer_list<std::pair<const char *, Target>> kTargetNames = {
    {"cpu", Target::CPU},
    {"cuda", Target::CUDA},
};

} // namespace dtc::driver
