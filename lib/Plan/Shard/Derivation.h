// From the sharding of a forward op to that of its whole bundle.
#pragma once

#include "dtc/Plan/Shard/Choices.h"

namespace dtc::plan {

class Derivation {
public:
  Derivation(const Problem &problem, const ProblemFacts &facts, const OpBundle &bundle,
             const sharding::Mesh &mesh, TensorShardings &shardings, const OpWork &work);

  /// `outside(value)`: the sharding in which a value that the bundle knows nothing
  /// about is taken. nullopt when gradients pending over `pending` cannot pass.
  template <typename Outside>
  std::optional<ChoiceOutcome> run(const sharding::OpSharding &choice,
                                   const sharding::AxisList &pending, Outside outside) {
    start(choice);
    for (size_t i = 0; i < bundle.values.size(); ++i)
      if (!known[i])
        reading[i] = gradientSharding(i, pending, outside(bundle.values[i]));
    findHints();
    for (size_t op = 1; op < bundle.ops.size(); ++op)
      if (!deriveBackward(op, pending))
        return std::nullopt;
    return finish();
  }

private:
  void start(const sharding::OpSharding &choice);
  sharding::TensorSharding gradientSharding(size_t value, const sharding::AxisList &pending,
                                            sharding::TensorSharding otherwise) const;
  std::optional<sharding::TensorSharding> pieceSharding(size_t value) const;
  int forwardOf(size_t value, bool made) const;
  void findHints();
  bool deriveBackward(size_t op, const sharding::AxisList &pending);
  void apply(size_t op, const sharding::OpSharding &choice);
  ChoiceOutcome finish();
  int local(ValueId value) const;

  const Problem &problem;
  const ProblemFacts &facts;
  const OpBundle &bundle;
  const sharding::Mesh &mesh;
  TensorShardings &shardings;
  const OpWork &work;

  std::vector<bool> made, leaving; ///< by local value
  std::vector<bool> known;         ///< `reading` is decided
  /// How a value is taken by backward ops; how it is made; how it should be made.
  std::vector<sharding::TensorSharding> reading, production;
  std::vector<std::optional<sharding::TensorSharding>> hint;
  std::map<ValueId, int> numbers;
  bool roundsSplit = false, goesRound = false;
  ChoiceOutcome outcome;
};

} // namespace dtc::plan
