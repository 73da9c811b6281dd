// Plans that differ in one setting from a plan that has something of everything.
#pragma once

#include "dtc/Plan/Plan/Settings.h"

#include <gtest/gtest.h>

namespace dtc::plan::testing {

inline Degrees base() {
  return {.dp = 4,
          .tp = 2,
          .pp = 4,
          .cp = 2,
          .zero = 2,
          .microBatch = 2,
          .numMicrobatches = 8,
          .recompute = Recompute::Selective};
}

/// A value that isn't the default one, nor that of `base`.
inline void change(int64_t &value) { value = 16; }
inline void change(int &value) { value = 3; }
inline void change(bool &value) { value = true; }
inline void change(ScheduleKind &value) { value = ScheduleKind::ZeroBubble; }
inline void change(Recompute &value) { value = Recompute::Full; }
inline void change(Offload &value) { value = Offload::Optimizer; }
inline void change(TensorWeights &value) { value = TensorWeights::Split; }
inline void change(ContextExchange &value) { value = ContextExchange::Heads; }
inline void change(ExpertCapacity &value) { value.factor = 1.25; }
inline void change(Overflow &value) { value = Overflow::Drop; }
inline void change(AxisOrder &value) { value = *orderFromName("dp-pp-tp-cp-ep"); }
inline void change(StageGroups &value) {
  value = {{.pp = 1, .dp = 4, .tp = 2, .microBatch = 2},
           {.pp = 3, .dp = 8, .tp = 1, .sp = true, .microBatch = 1}};
}

inline Degrees changed(const Setting &setting) {
  Degrees degrees = base();
  std::visit([&](auto member) { change(degrees.*member.plan); }, setting.member);
  return degrees;
}

} // namespace dtc::plan::testing
