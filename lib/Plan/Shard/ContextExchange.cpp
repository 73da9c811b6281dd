#include "dtc/Plan/Shard/ContextExchange.h"

#include "dtc/Plan/Shard/Choices.h"

#include <algorithm>

namespace dtc::plan {

/// Factors of the queries' heads: one, or heads of keys and queries of each.
static std::vector<sharding::FactorId> headsOf(const Op &op) {
  const sharding::TensorFactors &queries = op.rule->operands[0];
  return queries.size() == 4 ? queries[2] : std::vector<sharding::FactorId>();
}

bool mayExchangeHeads(const Op &op, int64_t ranks) {
  return op.kind == OpKind::Attention &&
         std::ranges::any_of(headsOf(op), [&](sharding::FactorId heads) {
           return op.rule->factors[heads].size % ranks == 0;
         });
}

static std::string whyNoHeads(const Problem &problem, const ProblemFacts &facts, int64_t cp) {
  bool exchanges = false;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const Op &op = problem.ops[id];
    if (op.kind != OpKind::Attention || op.backward || facts.isStatic[id])
      continue;
    exchanges = true;
    if (mayExchangeHeads(op, cp))
      continue;
    std::string sizes; // "4", or "2 x 2" for two heads of keys with two queries each
    for (sharding::FactorId heads : headsOf(op))
      sizes += (sizes.empty() ? "" : " x ") + std::to_string(op.rule->factors[heads].size);
    return "cp can't divide the heads of " + op.name + " (" + op.location +
           "), of which there are " + sizes + ", for cp_by=heads: " + std::to_string(cp);
  }
  return exchanges
             ? ""
             : "no attention has heads that ranks could exchange (dropout in it, or other work "
               "on its scores, rules that out): cp_by=heads";
}

std::string whyNoExchange(const Problem &problem, const ProblemFacts &facts,
                          ContextExchange exchange, int64_t cp) {
  switch (exchange) {
  case ContextExchange::Keys:
    return "";
  case ContextExchange::Heads:
    return whyNoHeads(problem, facts, cp);
  case ContextExchange::Ring:
    return std::ranges::any_of(problem.ops, mayGoRound)
               ? ""
               : "no attention can pass its keys on, for a bias, a window, dropout or a causal "
                 "mask "
                 "that doesn't begin with the keys: cp_by=ring";
  }
  return "";
}

} // namespace dtc::plan
