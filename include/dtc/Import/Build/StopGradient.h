// Values whose gradients the file stops.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// The tensor, which passes no gradient on to the parameters that it depends on.
Tensor stopGradient(Conversion &node, const Tensor &tensor);

} // namespace dtc::import
