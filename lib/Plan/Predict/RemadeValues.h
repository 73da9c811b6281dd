// What the backward pass of a stage makes again, where its forward pass doesn't keep it.
//
// Kernels compute short arithmetic where they read it (Stages/PassNeeds.cpp). Of a norm whose
// scale is trained, and a clamp behind it,
//
//   y = x * scale + shift    the gradient of the scale reads x
//   z = clamp(y)             the gradient of y reads y
//
// a slot has x, and y is made of it again. A stage that has y from the one before keeps it.
#pragma once

#include "dtc/Plan/Predict/UnitCosts.h"

#include <vector>

namespace dtc::plan {

/// Finds UnitUse::remadeFrom and remadeTo. `units`: by step. `uses`: by buffer.
void findRemade(const Problem &problem, const ProblemFacts &facts, const RankExecution &execution,
                const std::vector<int> &units, std::vector<UnitUse> &uses);

/// Adds a value to all stages that make it again.
void addRemade(const UnitUse &use, StageTable &remade);

} // namespace dtc::plan
