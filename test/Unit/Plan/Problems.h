// Problems for tests: files extracted from real graphs, and small ones by hand.
#pragma once

#include "dtc/Plan/Search/Search.h"
#include "dtc/Report/Failure.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace dtc::plan::testing {

/// test/Unit/Plan/problems/NAME.json, made by make.py there.
inline Problem load(const std::string &name) {
  std::string path = std::string(DTC_TEST_DIR) + "/Unit/Plan/problems/" + name + ".json";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Result<Problem> problem = problemFromJson(text.str(), path);
  if (!problem)
    ADD_FAILURE() << problem.error().message;
  return problem ? *problem : Problem{};
}

inline Cluster cluster(const std::string &name) { return *loadCluster(name); }

/// Nodes of these groups, as a cluster's file says them, and so many GB/s a device between them.
inline Cluster clusterOf(const std::vector<std::string> &groups, double gigabytes = 25) {
  std::string text = "groups:\n";
  for (const std::string &group : groups)
    text += "  - {" + group + "}\n";
  text += "inter_node: {bandwidth_gbs: " + std::to_string(gigabytes) + ", latency_us: 10}\n";
  Result<Cluster> result = clusterFromYaml(text, "groups.yaml");
  if (!result)
    ADD_FAILURE() << result.error().message;
  return result ? *result : Cluster{};
}

/// Why there is no plan, as users read it.
inline std::string refusalText(const SearchOutcome &outcome) {
  return report::failureText(outcome.error());
}

inline SearchResult plan(const Problem &problem, int64_t devices, const std::string &spec,
                         const std::string &clusterName = "dgx-h100") {
  SearchOutcome result = search(problem, cluster(clusterName), {devices, *parseSpec(spec)});
  if (!result)
    ADD_FAILURE() << result.error().message;
  return result ? *result : SearchResult{};
}

/// A plan of gpt.json on four devices as four stages of two pipeline ranks.
inline Plan interleaved(Plan plan, int64_t microbatches) {
  plan.degrees.pp = plan.degrees.chunks = 2;
  plan.degrees.numMicrobatches = microbatches;
  plan.degrees.schedule = ScheduleKind::Interleaved;
  int64_t last = plan.stages[0].lastOp;
  plan.stages = {{0, 2, {0, 1, 2, 3}},
                 {3, 4, {4, 5, 6, 7}},
                 {5, 6, {0, 1, 2, 3}},
                 {7, last, {4, 5, 6, 7}}};
  return plan;
}

/// The sharding of an argument, in words.
inline std::string shardingOf(const Problem &problem, const Plan &plan, const std::string &name) {
  for (const auto &[value, sharding] : plan.arguments)
    if (problem.values[value].name == name)
      return sharding.str(plan.mesh);
  return "no argument " + name;
}

/// Builds forward graphs of products, sums and pointwise ops.
class ProblemBuilder {
public:
  ValueId argument(ValueKind kind, std::vector<int64_t> shape) {
    Value value;
    value.kind = kind;
    value.shape = std::move(shape);
    value.name = "a" + std::to_string(problem.values.size());
    problem.values.push_back(value);
    problem.arguments = static_cast<int64_t>(problem.values.size());
    return static_cast<ValueId>(problem.values.size()) - 1;
  }

  /// y[b,s,n] = x[b,s,k] * w[k,n]
  ValueId contract(ValueId x, ValueId w) {
    auto shape = problem.values[x].shape;
    int64_t k = shape[2], n = problem.values[w].shape[1];
    sharding::RuleBuilder rule(2, 1);
    auto b = rule.factor(shape[0]), s = rule.factor(shape[1]),
         kf = rule.factor(k, sharding::FactorKind::Reduction), nf = rule.factor(n);
    rule.operandDim(0, b).operandDim(0, s).operandDim(0, kf).operandDim(1, kf).operandDim(1, nf);
    rule.resultDim(0, b).resultDim(0, s).resultDim(0, nf).linear({0}).linear({1});
    double flops = 2.0 * double(shape[0] * shape[1] * k * n);
    return op("dtc.contract", OpKind::Contraction, rule.build(), {x, w},
              {shape[0], shape[1], n}, flops);
  }

  ValueId add(ValueId x, ValueId y) {
    auto shape = problem.values[x].shape;
    auto rule = sharding::RuleBuilder::elementwise(2, 1, shape);
    rule.linear({0, 1});
    return op("arith.addf", OpKind::Elementwise, rule.build(), {x, y}, shape, 0);
  }

  ValueId pointwise(ValueId x) {
    auto shape = problem.values[x].shape;
    return op("math.tanh", OpKind::Elementwise,
              sharding::RuleBuilder::elementwise(1, 1, shape).build(), {x}, shape, 0);
  }

  /// Normalizes the last dimension: a rounds factor.
  ValueId softmax(ValueId x) {
    auto shape = problem.values[x].shape;
    sharding::RuleBuilder rule(1, 1);
    std::vector<sharding::FactorId> factors;
    for (size_t i = 0; i < shape.size(); ++i)
      factors.push_back(rule.factor(shape[i], i + 1 == shape.size()
                                                  ? sharding::FactorKind::Rounds
                                                  : sharding::FactorKind::Parallel));
    for (auto factor : factors)
      rule.operandDim(0, factor).resultDim(0, factor);
    ValueId result = op("dtc.softmax", OpKind::Reduction, rule.build(), {x}, shape, 0);
    Op &made = problem.ops.back();
    sharding::FactorId last = factors.back();
    factors.pop_back();
    made.rounds = {{last, factors, 4}, {last, factors, 4}};
    return result;
  }

  Problem finish(std::vector<ValueId> outputs, int64_t batch) {
    for (ValueId value : outputs)
      problem.results.push_back({value, ResultKind::Output, "out"});
    problem.batch = batch;
    return problem;
  }

private:
  ValueId op(const char *name, OpKind kind, sharding::ShardingRule rule,
             std::vector<ValueId> operands, std::vector<int64_t> shape, double flops) {
    Op op;
    op.name = name;
    op.kind = kind;
    op.rule = std::move(rule);
    op.operands = std::move(operands);
    op.flops = flops;
    op.forward = static_cast<OpId>(problem.ops.size());
    op.location = "node" + std::to_string(problem.ops.size());
    auto result = static_cast<ValueId>(problem.values.size());
    op.results = {result};
    Value value;
    value.shape = std::move(shape);
    problem.values.push_back(value);
    problem.ops.push_back(op);
    return result;
  }

  Problem problem;
};

} // namespace dtc::plan::testing
