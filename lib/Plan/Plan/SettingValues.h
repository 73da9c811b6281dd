// The values of settings as text, by their type.
#pragma once

#include "dtc/Plan/Plan/Settings.h"

namespace dtc::plan {

inline std::string textOf(int value) { return std::to_string(value); }
inline std::string textOf(int64_t value) { return std::to_string(value); }
inline std::string textOf(bool value) { return value ? "on" : "off"; }
inline std::string textOf(const AxisOrder &order) { return name(order); }
inline std::string textOf(const ExpertCapacity &capacity) { return name(capacity); }
template <typename Word>
  requires std::is_enum_v<Word>
std::string textOf(Word word) {
  return name(word);
}

/// Nothing for a word that is unknown.
template <typename T> std::optional<T> fromText(const std::string &text);
template <> inline std::optional<ScheduleKind> fromText(const std::string &text) {
  return scheduleFromName(text);
}
template <> inline std::optional<Recompute> fromText(const std::string &text) {
  return recomputeFromName(text);
}
template <> inline std::optional<Offload> fromText(const std::string &text) {
  return offloadFromName(text);
}
template <> inline std::optional<TensorWeights> fromText(const std::string &text) {
  return tensorWeightsFromName(text);
}
template <> inline std::optional<ContextExchange> fromText(const std::string &text) {
  return contextExchangeFromName(text);
}
template <> inline std::optional<Overflow> fromText(const std::string &text) {
  return overflowFromName(text);
}
template <> inline std::optional<ExpertCapacity> fromText(const std::string &text) {
  return capacityFromName(text);
}
template <> inline std::optional<AxisOrder> fromText(const std::string &text) {
  return orderFromName(text);
}
template <> inline std::optional<bool> fromText(const std::string &text) {
  return text == "on" || text == "off" ? std::optional(text == "on") : std::nullopt;
}

} // namespace dtc::plan
