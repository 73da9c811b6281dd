// Rows that found no slot with their expert, as a program counts them. Each chooses an expert for a
// token, and the expert has too few slots in the group that the token is in.
//
//   binding (kind Count)              what it is
//   overflow                          of all ranks and layers; the run ends unless it is 0
//   overflow:layer 2 (moe.router)     of one layer, on this rank
//   dropped_tokens, dropped_tokens:…  the same where such rows are dropped
//
// The compiler names the roles alike (Graph/StepOps.h).
#pragma once

#include "dtc-rt/Program/ProgramView.h"

#include <string>
#include <vector>

namespace dtc::rt {

struct LostRows {
  struct Layer {
    const fbs::Binding *binding;
    std::string name;
  };
  const fbs::Binding *total = nullptr; ///< null: there are slots for all rows
  std::vector<Layer> layers;           ///< of this rank
  bool areDropped = false;

  static LostRows of(const ProgramView &program);
  bool endRun() const { return total && !areDropped; }
};

} // namespace dtc::rt
