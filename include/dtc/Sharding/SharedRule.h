// A sharding rule that several ops have in common.
#pragma once

#include "dtc/Sharding/Rule.h"

#include <memory>

namespace dtc::sharding {

/// Layers of a model have few distinct rules among all their ops, so that a graph is copied
/// without copying rules. A rule is never changed; an op gets another one instead:
///
///   ShardingRule rule = op.rule;      // a copy
///   rule.factors[0].size *= 2;
///   op.rule = std::move(rule);        // other ops keep the one that they shared with it
class SharedRule {
public:
  SharedRule() : SharedRule(none()) {}
  SharedRule(ShardingRule rule) : rule(std::make_shared<const ShardingRule>(std::move(rule))) {}

  const ShardingRule &operator*() const { return *rule; }
  const ShardingRule *operator->() const { return rule.get(); }
  operator const ShardingRule &() const { return *rule; }
  /// Whether both say the same, be they one rule or two.
  bool operator==(const SharedRule &other) const {
    return rule == other.rule || *rule == *other.rule;
  }

private:
  /// That of an op without operands and results.
  static const SharedRule &none() {
    static const SharedRule rule{ShardingRule()};
    return rule;
  }
  std::shared_ptr<const ShardingRule> rule;
};

} // namespace dtc::sharding
