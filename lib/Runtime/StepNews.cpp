// What ranks tell each other of a step, and what they make of it.
#include "Session.h"

#include "dtc-rt/Program/LossScaling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace dtc::rt {
namespace {

using fbs::BindingKind;

/// What a step that failed has to say of its gradients.
std::string aboutGradients(std::optional<double> nonFinite) {
  if (!nonFinite)
    return {};
  if (*nonFinite == 0)
    return "; every element of the gradients is finite";
  std::string count = std::to_string(std::llround(*nonFinite));
  return "; elements of the gradients that are infinite or no numbers: " + count;
}

/// It is no number, and no gradient comes from it.
bool isMeanOverNothing(std::optional<double> value, std::optional<double> nonFinite) {
  return value && std::isnan(*value) && nonFinite == 0.0;
}

std::string aboutTargets(double value, std::optional<double> nonFinite) {
  return isMeanOverNothing(value, nonFinite)
             ? ", as where all targets of a step are ignored or have classes of weight 0"
             : "";
}

} // namespace

StepNews::Number StepNews::numberOf(const fbs::Binding &binding) {
  switch (binding.kind()) {
  case BindingKind::Loss:
    return &StepNews::loss;
  case BindingKind::GradNorm:
    return &StepNews::gradNorm;
  case BindingKind::NonFinite:
    return &StepNews::nonFinite;
  case BindingKind::Buffer:
    return binding.name()->string_view() == kLossScale      ? &StepNews::lossScale
           : binding.name()->string_view() == kSkippedSteps ? &StepNews::skippedSteps
                                                            : nullptr;
  default:
    return nullptr;
  }
}

Status RankWorker::exchangeNews() {
  constexpr size_t kNumbers = std::size(StepNews::kGiven), kItems = kNumbers + 1;
  double mine[kItems] = {};
  for (size_t i = 0; i < kNumbers; ++i)
    mine[i] = (own.*StepNews::kGiven[i]).value_or(std::numeric_limits<double>::quiet_NaN());
  mine[kNumbers] = static_cast<double>(stopSignal.load());
  Result<std::vector<double>> all = tellAll(mine);
  if (!all)
    return all.status();
  news = {};
  for (const double *item = all->data(); item != all->data() + all->size(); item += kItems) {
    for (size_t i = 0; i < kNumbers; ++i)
      if (!std::isnan(item[i]))
        news.*StepNews::kGiven[i] = item[i];
    news.stopSignal = std::max(news.stopSignal, static_cast<int>(item[kNumbers]));
  }
  return Status::ok();
}

Result<std::vector<double>> RankWorker::tellAll(std::span<const double> mine) {
  std::vector<double> all(mine.size() * world.ranks.size());
  Transfer transfer{reinterpret_cast<const char *>(mine.data()),
                    reinterpret_cast<char *>(all.data()),
                    {static_cast<int64_t>(mine.size())}};
  Status status = communicator.allGather(world, DType::F64, {&transfer, 1}, 0);
  if (!status.isOk())
    return status;
  return all;
}

int RankWorker::speakerOf(StepNews::Number number) const {
  return number == &StepNews::loss       ? session.speakers.loss
         : number == &StepNews::gradNorm ? session.speakers.gradNorm
                                         : session.speakers.nonFinite;
}

Status RankWorker::lookAtResults(int64_t number) {
  StepNews seen;
  lostByLayer.clear();
  for (size_t i = 0; i < stepResults.size(); ++i) {
    Result<double> value = readResult(number, i);
    if (!value)
      return value.status();
    if (stepResults[i] == lost.total)
      own.lostRows = *value;
    else if (stepResults[i]->kind() == BindingKind::Count)
      lostByLayer.push_back(*value);
    else
      seen.*StepNews::numberOf(*stepResults[i]) = *value;
  }
  for (StepNews::Number given : StepNews::kGiven)
    if (place.second == 0 && speaksFor(speakerOf(given)))
      own.*given = seen.*given;
  return checkNumbers(number, seen);
}

/// Where the loss is scaled, gradients that aren't finite make the next step's scale smaller. Who
/// gives the batches is told of a loss without targets, whose gradients are zeros. Else the loss is
/// named first: gradients that aren't finite mostly follow from it.
Status RankWorker::checkNumbers(int64_t number, const StepNews &seen) const {
  const std::string where =
      "step " + std::to_string(number) + ": rank " + std::to_string(communicator.rank()) + ": the ";
  if (seen.lossScale && *seen.lossScale < std::numeric_limits<float>::min())
    return {ErrorCategory::NotFinite,
            where + "scale of the loss has become nothing, as the gradients of each step overflow"};
  const bool hasNoTargets = isMeanOverNothing(seen.loss, seen.nonFinite);
  if (hasNoTargets ? session.requests != nullptr : seen.lossScale.has_value())
    return Status::ok();
  for (auto [value, name] : {std::pair(seen.loss, "loss"), {seen.gradNorm, "gradient norm"}})
    if (value && !std::isfinite(*value))
      return {ErrorCategory::NotFinite, where + name + " is not finite: " + std::to_string(*value) +
                                            aboutGradients(seen.nonFinite) +
                                            aboutTargets(*value, seen.nonFinite)};
  return Status::ok();
}

Result<double> RankWorker::readResult(int64_t number, size_t result) const {
  float value = 0;
  Status status = pipeline->read(
      number, result, [&](const char *host) { std::memcpy(&value, host, sizeof(value)); });
  if (!status.isOk())
    return status;
  return value;
}

} // namespace dtc::rt
