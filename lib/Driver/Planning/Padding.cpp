#include "Padding.h"

#include "Candidate.h"

#include "dtc/Dialect/Graph/FilledView.h"

#include <algorithm>

using namespace mlir;

namespace dtc::driver {

/// Larger groups would hold little of a layer each, and each degree that is tried takes a search.
constexpr int64_t kMostWays = 32;

/// Degrees of tensor parallelism that may be padded for. A group across nodes is none.
static std::vector<int64_t> waysOf(const Request &request) {
  if (request.spec.tp)
    return {*request.spec.tp};
  const int64_t devices = request.options.devices, node = request.cluster.devicesPerNode;
  std::vector<int64_t> ways;
  for (int64_t tp = 2; tp <= std::min({node > 0 ? node : devices, devices, kMostWays}); ++tp)
    if (devices % tp == 0)
      ways.push_back(tp);
  return ways;
}

/// Whether the forward pass has heads or features that can't be divided so.
static bool mayPad(Trained &step, int64_t ways) {
  auto isUneven = [&](int64_t size) { return size % ways != 0 && 2 * size >= ways; };
  auto found = step.module().walk([&](Operation *op) {
    if (op->hasAttr(graph::GraphDialect::kBackward))
      return WalkResult::advance();
    bool isFound = false;
    if (auto attention = dyn_cast<graph::AttentionOp>(op))
      isFound = isUneven(graph::shapeOf(attention.getQuery())[2]);
    if (auto product = dyn_cast<graph::ContractOp>(op))
      for (auto [dim, index] : llvm::enumerate(product.getLhsIndices()))
        isFound |= !llvm::is_contained(product.getResultIndices(), index) &&
                   isUneven(graph::shapeOf(product.getLhs())[dim]);
    return isFound ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

std::vector<Request> withPadding(const Request &request, Trained &step) {
  std::vector<Request> padded;
  if (!request.isForOwnProgram() || request.hasPlanFile())
    return padded;
  for (int64_t ways : waysOf(request)) {
    if (ways == 1 || !mayPad(step, ways))
      continue;
    plan::Spec given = request.given;
    given.tp = ways;
    auto filled = plan::fill(given, request.options.devices);
    if (!filled) // other pins leave no room for it
      continue;
    Request &other = padded.emplace_back(request);
    other.given = given;
    other.spec = *filled;
    other.options.train.hidden = hiddenPadding(ways, request.options.target);
    other.options.train.hidden.isPriced = true;
  }
  return padded;
}

bool mayGain(const Planned &known) {
  constexpr double kLittle = 1.0 / 32; ///< of a step
  const plan::Plan &plan = known.search.plan;
  const plan::Prediction &predicted = known.search.predicted;
  auto isRepeated = [](const auto &block) { return block.kind != plan::Recompute::None; };
  if (!predicted.fits() || plan.degrees.tp > 1 || plan.degrees.recompute != plan::Recompute::None ||
      std::any_of(plan.recompute.begin(), plan.recompute.end(), isRepeated))
    return true;
  return predicted.communicationSeconds / predicted.stepSeconds + predicted.bubbleFraction >
         kLittle;
}

std::vector<Type> shapesOf(Trained &step) {
  std::vector<Type> types;
  for (auto parameter : step.module().getOps<graph::ParameterOp>())
    types.push_back(parameter.getType());
  return types;
}

plan::Dimensions paddedIn(Trained &step) {
  plan::Dimensions padded;
  for (auto parameter : step.module().getOps<graph::ParameterOp>()) {
    ArrayRef<int64_t> filled = graph::filledOf(parameter),
                      seen = cast<RankedTensorType>(parameter.getType()).getShape();
    for (size_t dim = 0; dim < seen.size(); ++dim)
      if (seen[dim] != filled[dim])
        padded.emplace_back(parameter.getSymName().str(), int64_t(dim));
  }
  return padded;
}

std::string wrongPadding(const Request &request, Trained &step) {
  if (!request.hasPlanFile())
    return "";
  const std::string &file = request.options.plan;
  auto named = plan::paddedDimensions(request.planText, file);
  if (!named)
    return named.error().message;
  const plan::Dimensions padded = paddedIn(step);
  for (const auto &each : *named)
    if (std::find(padded.begin(), padded.end(), each) == padded.end())
      return file + ": padded: dimension " + std::to_string(each.second) + " of " + each.first +
             " can't be padded here";
  return "";
}

void tellAsAsked(const Request &request, const Planned *other, Planned &padded) {
  if (request.given.tp)
    return;
  plan::SearchResult &search = padded.search;
  search.pinned = false;
  if (other) {
    std::vector<plan::Alternative> &known = search.alternatives;
    std::vector<plan::Alternative> unpadded = other->search.alternatives;
    unpadded.push_back(chosenIn(other->search));
    std::erase_if(unpadded, [&](const plan::Alternative &each) {
      return each.degrees.tp == search.plan.degrees.tp; // which is padded for
    });
    known.insert(known.begin(), unpadded.begin(), unpadded.end());
    std::stable_sort(known.begin(), known.end(), isFaster);
  }
  if (!padded.explanation)
    return;
  std::erase_if(padded.explanation->pins,
                [](const plan::PinPrice &price) { return price.pin.starts_with("tp="); });
  if (padded.explanation->pins.empty())
    padded.explanation->unpinned.reset();
}

} // namespace dtc::driver
