// The parameters and buffers of a model by layer, alike layers folded.
//
// Layers (`plan::findBlocks`) that follow one another and whose parameters have
// the same shapes and shardings in the same order are one group:
//
//   before the layers   wte.weight       512x64  [{"tp"}, {}]
//   layers 0-1          h.*.ln_1.weight  64      [{}]           x2
//                       ...
//   after the layers    lm_head.weight   512x64  [{"tp"}, {}]
#pragma once

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Report/PlanFacts.h"

namespace dtc::report {

struct ParameterRow {
  std::string name;        ///< with * for what differs between layers, or the first one's
  bool isFamily = true;    ///< false: the others' names are different ones
  plan::ValueId value = 0; ///< the first of them
  int64_t count = 1;
  sharding::AxisList storage; ///< splits what the sharding leaves to a rank (ZeRO-3)
  bool operator==(const ParameterRow &) const = default;
};

struct LayerGroup {
  int64_t first = -1, last = -1; ///< layers; -1: read by no layer alone
  std::string title;
  std::vector<ParameterRow> rows;
  bool operator==(const LayerGroup &) const = default;
};

std::vector<LayerGroup> foldLayers(const plan::Problem &problem, const plan::ProblemFacts &facts,
                                   const plan::Plan &plan);

} // namespace dtc::report
