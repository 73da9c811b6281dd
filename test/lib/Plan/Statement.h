// How ShardingStatement.h's statements are made.
#pragma once

#include "ShardingStatement.h"

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Shard/ShardingSolver.h"

#include <nlohmann/json.hpp>

#include <array>
#include <map>
#include <set>

namespace dtc::plan::testing {

using sharding::AxisList;
using sharding::OpSharding;
using sharding::TensorSharding;

/// Of a decider: by choice, the shardings that it names.
using Named = std::vector<std::vector<int>>;

struct Decider {
  std::string name;
  std::vector<OpId> ops;   ///< none: a parameter's
  ValueId parameter = -1;
  std::vector<std::vector<OpSharding>> choices; ///< by choice, by op
  std::vector<TensorSharding> shardings;        ///< of a parameter's choices
  std::vector<double> costs;
};

/// A decider's part in a transfer; decider -1: always the same.
struct Part {
  int decider = -1;
  Named shardings;
};

class Statement {
public:
  explicit Statement(const StatementCase &given)
      : problem(given.problem), facts(problem), degrees(given.degrees),
        calls(double(given.options.numMicrobatches ? given.options.numMicrobatches
                                                   : problem.numMicrobatches)),
        mesh(makeMesh(problem, facts, degrees)), model(given.cluster, degrees.devices()),
        work(problem, facts, model), tensorAxes(mesh.ofDegree("tp")) {}

  nlohmann::json run(const Solution &solution);

private:
  OpSharding pinned(OpId op) const;
  void place(const OpSharding &start, OpId op, const AxisList &axes,
             std::vector<OpSharding> &result) const;
  std::vector<OpSharding> enumerate(OpId op) const;
  void addBundles();
  void addParameters();

  int intern(const TensorSharding &sharding);
  double seconds(const Value &value, int from, int to);
  TensorSharding batchSharding(ValueId value) const;
  TensorSharding madeBy(const Decider &decider, size_t choice, ValueId value) const;
  Part maker(ValueId value);
  std::vector<Part> readers(ValueId value);
  Part completed(Part part);
  bool isTotal(ValueId value) const;
  std::vector<ValueId> termsOf(ValueId total) const;
  std::vector<Part> joined(const std::vector<Part> &parts) const;
  void addTransfer(const Value &value, const Part &hub, std::vector<Part> spokes, bool toHub);
  void addValue(ValueId value);
  void addSum(OpId op);
  void addGradient(ValueId parameter);
  double gradientSeconds(const Value &parameter, int sharding, const std::set<int> &terms);
  std::vector<int> answered(const Plan &plan) const;

  const Problem &problem;
  ProblemFacts facts;
  Degrees degrees;
  double calls;
  sharding::Mesh mesh;
  CostModel model;
  OpWork work;
  AxisList tensorAxes;
  std::vector<Decider> deciders;
  std::vector<int> deciderOf; ///< by op, -1 for sums of gradients
  std::map<ValueId, int> parameterDecider;
  std::vector<TensorSharding> shardings;
  nlohmann::json transfers = nlohmann::json::array(), tables = nlohmann::json::array();
};

} // namespace dtc::plan::testing
