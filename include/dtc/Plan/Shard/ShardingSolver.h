// Shards all ops of a problem on a dp x ep x cp x tp mesh at the least cost.
//
// Variables are bundles (a forward op with its backward ops) and parameters. One kind of term is
// what a bundle's choice costs inside. The other is what it costs to bring a value from how it is
// made to each distinct way in which it is read. Gradients of one value are added where they are
// laid out alike and then brought to the value's sharding, once for each sharding among them. The
// network's structure follows the graph, so that a transformer is eliminated layer by layer.
//
// A value whose readers have too many shardings among them for one table gets a variable of its
// own. This is the sharding in which it is shared. It is brought there once, and from there to each
// reader. (Dearer than the truth only where several readers share a second sharding that costs
// communication, too.)
//
// Take y = tanh(x w) v in bf16 with x[4, 1024, 2048] and w[2048, 8192] on four H100s, tp=4. The two
// products may be split along s, n or k, or not at all; tanh along s or n. Two of the combinations:
//
//   splits     x w   tanh   tanh v   communication                            sum
//   s, s, s    59    13     63       4.8, each takes its rows of x            140 us
//   n, n, k    59    13     59       128, all-reduce of the terms of y        258 us
//
// The first is the answer, as there is no backward pass here. It would sum the gradients of w and v
// over tp; then the second one, Megatron's, may be better.
#pragma once

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Shard/Choices.h"
#include "dtc/Plan/Shard/SolveSharding.h"
#include "dtc/Plan/Solve/CostNetwork.h"

namespace dtc::plan {

/// What decides the shardings of a problem on a cluster, beside the price of memory.
struct ShardingConditions {
  ShardingConditions(const Problem &problem, const ProblemFacts &facts, const Degrees &degrees,
                     const SolverOptions &options);
  sharding::Mesh mesh;
  TensorWeights tensorWeights;
  ContextExchange contextExchange;
  bool sp;               ///< what errors say of it
  SolverOptions options; ///< without that price, all else filled in
  bool operator==(const ShardingConditions &) const = default;
};

/// Solves one problem under fixed degrees. SolveSharding.h has it as a function, which names the
/// stage's devices, too. These are many, and most solutions are thrown away.
///
/// The network is built once. What is held costs by the price of memory, and each price gets a copy
/// of the network with these costs.
class ShardingSolver {
public:
  /// `bundles`: those of the problem, where they are known from another solver. `folding`: the
  /// problem must be its, perhaps with another batch.
  ShardingSolver(const Problem &problem, const ProblemFacts &facts, const Cluster &cluster,
                 const Degrees &degrees, const SolverOptions &options,
                 std::shared_ptr<const OpBundles> bundles = nullptr,
                 const Folding *folding = nullptr);
  /// At the price of memory of the options, or at another one.
  Result<Solution> solve() { return solve(secondsPerByte); }
  Result<Solution> solve(double secondsPerByte);
  /// Of a folded problem. Gives the best of the whole model, in which the blocks that are alike are
  /// treated equally. It is nullopt where that isn't known to be the best.
  std::optional<Result<Solution>> solveFolded() { return solveFolded(secondsPerByte); }
  std::optional<Result<Solution>> solveFolded(double secondsPerByte);

  /// The ways in which a forward op can be sharded, of those that look alike from
  /// outside the cheapest.
  std::vector<sharding::OpSharding> choicesOf(OpId op);

  /// How one choice of a variable sees a value.
  struct View {
    ShardingId made = -1;
    std::vector<ShardingId> terms, read;
    auto operator<=>(const View &) const = default;
  };

private:
  /// A tensor of a bundle by its number there; `complete`: pending sums in its
  /// sharding don't count.
  struct Tensor {
    int local = -1;
    bool complete = false;
    auto operator<=>(const Tensor &) const = default;
  };
  /// One variable's part in a term about a value.
  struct Member {
    enum Type { BundleMember, SharedMember, Fixed } type = Fixed;
    int variable = -1;
    int kind = 0;                ///< of the bundle or sharding domain; of a fixed one, its sharding
    std::optional<Tensor> made;  ///< it makes the value, laid out as this
    std::vector<Tensor> terms; ///< it makes terms of the sum that the value is
    int read = -1;             ///< it reads the value
    auto operator<=>(const Member &) const = default;
  };
  struct PricedTerm {
    CostNetwork::Costs costs;
    double seconds = 0; ///< where there is nothing to choose
  };
  using Price = double (ShardingSolver::*)(const Value &, const std::vector<const View *> &);
  /// A term over one variable, by choice.
  struct HeldTerm {
    int term = 0;
    std::vector<double> seconds, bytes;
  };

  OpId build();
  OpId buildOnce();
  void addHeld(CostNetwork::Variable variable, std::vector<double> seconds,
               std::vector<double> bytes);
  CostNetwork networkAt(double secondsPerByte) const;
  CostNetwork::Variable addVariable(size_t choices, OpId op, ValueId value);
  Error illegal(OpId op) const;
  Result<Solution> solution(const CostNetwork::Solution &found);
  OpId addBundles();
  bool isForbidden(const OpBundle &bundle, const ChoiceOutcome &outcome) const;
  void addParameter(ValueId value);
  void addReaders(ValueId value);
  void addSum(OpId op);
  void addAddition(OpId op);
  void addParameterGradient(ValueId parameter);
  void addOutput(ValueId value);
  void addTerm(const Value &value, const std::vector<Member> &members, Price price, int tag);
  PricedTerm priceTerm(const Value &value, const std::vector<Member> &members, Price price);

  const std::vector<ShardingId> &distinctOf(const std::vector<const View *> &views,
                                            std::vector<ShardingId> View::*list);
  double priceReaders(const Value &value, const std::vector<const View *> &views);
  double priceTerms(const Value &value, const std::vector<const View *> &views);
  double priceGradient(const Value &value, const std::vector<const View *> &views);
  double priceAccumulation(const Value &value, const std::vector<const View *> &views);
  double priceOutput(const Value &value, const std::vector<const View *> &views);

  int timesOf(const std::vector<Member> &members) const;
  bool isSmall(const std::vector<Member> &members);
  Member addShared(ValueId value, const std::vector<Member> &members);
  Member addSharedVariable(ValueId value, std::vector<ShardingId> domain);

  int localOf(OpId op, ValueId value) const;
  Member maker(ValueId value);
  Member term(ValueId value);
  void join(std::vector<Member> &members, Member member) const;
  std::vector<View> views(const Member &member);
  size_t viewCount(const Member &member);
  std::vector<ValueId> leafTerms(ValueId total) const;
  ShardingId complete(ShardingId sharding);
  ShardingId accumulated(ShardingId parameter, const std::vector<ShardingId> &terms);
  std::vector<ShardingId> accumulations(const std::vector<Member> &members);
  double onceAStep(const Value &parameter, ShardingId gradient);

  Plan assemble(const std::vector<int> &chosen);
  void assembleSum(OpId op, const std::vector<int> &chosen, Plan &plan);
  void assembleArguments(const std::vector<int> &chosen, Plan &plan);
  View viewOf(const Member &member, const std::vector<int> &chosen);

  const Problem &problem;
  const ProblemFacts &facts;
  const Degrees degrees;
  const double secondsPerByte; ///< of the options
  const ShardingConditions conditions;
  const std::optional<SolverOptions::Forced> &forced;
  const double numMicrobatches;
  const sharding::Mesh &mesh;
  CostModel model;
  OpWork work;
  TensorShardings shardings;
  const std::shared_ptr<const OpBundles> ownBundles;
  const OpBundles &bundles;
  Choices choices;
  std::optional<OpId> built; ///< what `build` gave
  CostNetwork network;       ///< where memory costs nothing
  std::vector<HeldTerm> held;
  double fixedSeconds = 0; ///< of terms that no choice changes
  const Folding *const folding;
  std::vector<int> variableHome; ///< its block, of a folded problem
  std::vector<int> bundleVariable;
  std::map<ValueId, Member> parameters;
  /// The choices of variables that are shardings; equal domains are one kind.
  std::map<std::vector<ShardingId>, int> domainIds;
  std::vector<std::vector<ShardingId>> domains;
  std::map<std::pair<std::vector<int64_t>, std::vector<Member>>, PricedTerm> priced;
  std::vector<ShardingId> shardingOf;       ///< by value, once solved
  std::vector<ShardingId> shardingsOfViews; ///< of distinctOf
};

/// The mesh of one stage for these degrees: axes dp, ep, cp and tp without those of size 1, tp
/// innermost. There are two axes of dp where a part of it shares ZeRO's storage. There are several
/// of tp where the sizes of contractions ask for it. They lie on the devices as the degrees' order
/// says.
sharding::Mesh makeMesh(const Problem &problem, const ProblemFacts &facts,
                        const Degrees &degrees);

} // namespace dtc::plan
