#include "LostRows.h"
#include "Session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace dtc::rt {

static constexpr std::string_view kDropped = "dropped_tokens", kOverflow = "overflow";

LostRows LostRows::of(const ProgramView &program) {
  LostRows rows;
  for (const fbs::Binding *binding : program.bindings({fbs::BindingKind::Count})) {
    std::string_view role = binding->name() ? binding->name()->string_view() : std::string_view();
    size_t end = role.find(':');
    std::string_view name = role.substr(0, end);
    if (name != kDropped && name != kOverflow)
      continue;
    if (end != std::string_view::npos) {
      rows.layers.push_back({binding, std::string(role.substr(end + 1))});
      continue;
    }
    rows.total = binding;
    rows.areDropped = name == kDropped;
  }
  return rows;
}

Result<std::vector<double>> RankWorker::readLostRows() {
  std::vector<double> counts;
  for (const LostRows::Layer &layer : lost.layers) {
    float value = 0;
    Status status = device->read(at(*layer.binding), sizeof(value), [&](const char *host) {
      std::memcpy(&value, host, sizeof(value));
    });
    if (!status.isOk())
      return status;
    counts.push_back(value);
  }
  return counts;
}

/// All ranks know that there are such rows, and find out together who has some. That rank says it;
/// the others wait until they are told.
Status RankWorker::refuseLostRows(const std::string &when, const std::vector<double> &byLayer) {
  const double mine = std::accumulate(byLayer.begin(), byLayer.end(), 0.0);
  Result<std::vector<double>> all = tellAll({&mine, 1});
  if (!all)
    return all.status();
  auto holder = std::find_if(all->begin(), all->end(), [](double count) { return count > 0; });
  const Status unknown(ErrorCategory::NotFinite, when + ": experts have too few slots");
  if (holder - all->begin() != communicator.rank()) {
    Result<std::vector<double>> ended = tellAll({&mine, 1});
    return ended ? unknown : ended.status();
  }
  auto layer = std::find_if(byLayer.begin(), byLayer.end(), [](double count) { return count > 0; });
  return {ErrorCategory::NotFinite,
          when + ": rank " + std::to_string(communicator.rank()) + ": " +
              lost.layers[layer - byLayer.begin()].name + ": tokens find no slot with an expert " +
              std::to_string(std::llround(*layer)) +
              " times; compile with a larger capacity, or with overflow=drop"};
}

} // namespace dtc::rt
