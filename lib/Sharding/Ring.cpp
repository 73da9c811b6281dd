#include "dtc/Sharding/Ring.h"

#include <algorithm>

namespace dtc::sharding {

bool mayGoRound(const ShardingRule &rule, FactorId one, FactorId other) {
  auto isRounds = [&](FactorId factor) { return rule.factors[factor].kind == FactorKind::Rounds; };
  if (one == other || (!isRounds(one) && !isRounds(other)))
    return false;
  auto hasBoth = [&](const TensorFactors &tensor) {
    return occurs(tensor, one) && occurs(tensor, other);
  };
  return std::none_of(rule.operands.begin(), rule.operands.end(), hasBoth) &&
         std::none_of(rule.results.begin(), rule.results.end(), hasBoth);
}

std::optional<Ring> ringOf(const ShardingRule &rule, const OpSharding &sharding) {
  auto isRounds = [](const Factor &factor) { return factor.kind == FactorKind::Rounds; };
  if (std::none_of(rule.factors.begin(), rule.factors.end(), isRounds)) // as most: asked often
    return std::nullopt;
  for (size_t i = 0; i < rule.factors.size(); ++i)
    for (size_t j = 0; j < rule.factors.size(); ++j) {
      auto stays = static_cast<FactorId>(i), travels = static_cast<FactorId>(j);
      bool isRing = i != j && !sharding.factors[i].empty() &&
                    sharding.factors[i] == sharding.factors[j] && !rule.operands.empty() &&
                    occurs(rule.operands[0], stays) && mayGoRound(rule, stays, travels);
      if (isRing)
        return Ring{stays, travels, sharding.factors[i]};
    }
  return std::nullopt;
}

} // namespace dtc::sharding
