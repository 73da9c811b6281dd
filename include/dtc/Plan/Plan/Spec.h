// SPEC: what a user pins by hand, "dp=2,tp=2,micro_batch=1".
#pragma once

#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Schedule/Descriptor.h"

namespace dtc::plan {

/// What is absent is to be searched. Each member has a row in the table of settings (Settings.h).
struct Spec {
  std::optional<int64_t> dp, tp, pp, cp, ep;
  std::optional<bool> sp, regather;
  std::optional<ContextExchange> contextExchange;
  std::optional<TensorWeights> tensorWeights;
  std::optional<ExpertCapacity> capacity;
  std::optional<Overflow> overflow;
  std::optional<int> zero;
  std::optional<int64_t> zeroGroup, chunks, microBatch;
  /// 0, which words can't say: as many as the schedule keeps by itself.
  std::optional<int64_t> kept;
  std::optional<ScheduleKind> schedule;
  std::optional<Recompute> recompute;
  std::optional<Offload> offload;
  /// Absent from a SPEC that pins all degrees, ZeRO, recomputation and microbatch
  /// (isPinned): the default order.
  std::optional<AxisOrder> order;
  /// Of a plan that is planned again: dp, tp, pp and micro_batch are then those of
  /// Degrees. A SPEC in words can't say them.
  std::vector<StageGroup> groups = {};
  bool operator==(const Spec &) const = default;
};

/// Parses "auto" or KEY=VALUE,... An unknown key names the nearest known one.
Result<Spec> parseSpec(const std::string &text);

/// Why ranks can't keep as many microbatches as a SPEC says: its schedule takes no such limit. Or
/// "".
std::string whyNoLimit(const Spec &spec);

/// Sets degrees left out to 1 where those given already fill `devices`;
/// refuses a product that can't divide it, and a limit that its schedule doesn't take.
Result<Spec> fill(Spec spec, int64_t devices);

/// A plan's degrees as a SPEC. Two things stay as `asked` has them. One is how tensor parallelism
/// treats the sequence. The other is which blocks are recomputed or stored by a level of ZeRO,
/// where not all are. The same search decides them alike.
Spec pinned(const Degrees &degrees, Spec asked);

/// The known word closest to `word`, or "" when none is close.
std::string nearest(const std::string &word, const std::vector<std::string> &known);

/// None for a text that isn't a number as a whole.
std::optional<int64_t> toInteger(const std::string &text);

using schedule::name;
using schedule::scheduleFromName;
const char *name(Recompute kind);
const char *name(Offload kind);
const char *name(TensorWeights kind);
const char *name(ContextExchange kind);
const char *name(Overflow kind);
std::optional<Recompute> recomputeFromName(const std::string &name);
std::optional<Offload> offloadFromName(const std::string &name);
std::optional<TensorWeights> tensorWeightsFromName(const std::string &name);
std::optional<ContextExchange> contextExchangeFromName(const std::string &name);
std::optional<Overflow> overflowFromName(const std::string &name);

} // namespace dtc::plan
