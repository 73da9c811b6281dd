// What an op does on one device under a choice, as the cost model asks for it.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Sharding/Ring.h"

namespace dtc::plan {

/// An all-reduce inside an op whose rounds factor is split.
struct RoundUse {
  sharding::AxisList axes;
  int64_t bytes = 0;
};

struct Computing {
  double seconds = 0;
  int64_t kernels = 0;
};

/// What ranks pass on inside an op whose tensors go round: one tensor.
struct RingUse {
  sharding::AxisList axes;
  int64_t bytes = 0;  ///< of each time
  int64_t times = 0;  ///< one less than there are ranks
  double seconds = 0; ///< of all times, as far as no step of the op hides them
};

class OpWork {
public:
  OpWork(const Problem &problem, const ProblemFacts &facts, const CostModel &model)
      : problem(problem), facts(facts), model(model) {}

  /// Of one step, where tensors go round.
  LocalWork work(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;
  /// Of the op without communication: of all steps.
  Computing computing(OpId op, const sharding::OpSharding &choice,
                      const sharding::Mesh &mesh) const;
  std::vector<RoundUse> rounds(OpId op, const sharding::OpSharding &choice,
                               const sharding::Mesh &mesh) const;
  bool goesRound(OpId op, const sharding::OpSharding &choice) const;
  std::vector<RingUse> ring(OpId op, const sharding::OpSharding &choice,
                            const sharding::Mesh &mesh) const;
  /// Of what is on its way round, and of what steps made so far, beside what a step needs.
  int64_t ringBytes(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;
  /// Time of the op itself with the communication inside it.
  double seconds(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;

  /// Global bytes of temporaries inside an op, and of those kept for its backward pass. Of GPUs, a
  /// fused attention needs neither (Dao et al., FlashAttention, NeurIPS 2022). Another one keeps
  /// the probabilities in the type of its operands instead of in f32. With dropout it keeps a mask
  /// and what that leaves of them (Korthikanti et al. 2022, section 4.1). A loss that isn't fused
  /// copies its logits to f32 and keeps their probabilities.
  double scratchBytes(OpId op) const;
  double savedBytes(OpId op) const;

  /// Where the program drops elements of a sum's term before a residual sum: the product or look-up
  /// that makes the term. Its backward pass reads the mask. It is -1 for other ops.
  OpId dropsOutputOf(OpId op) const;
  /// Whether a value is written to memory. Op by op, all are but casts, which
  /// happen where a value is read.
  bool exists(ValueId value) const;
  /// A program that isn't compiled runs a kernel for each op.
  bool runsOpByOp() const { return isGpu() && !model.getCluster().software.compiled; }

private:
  bool isGpu() const { return model.device().multiprocessors > 0; }
  /// Whether an op is a bias that the product before it adds.
  bool isEpilogue(OpId op) const;
  double logitBytes(const Op &op) const;
  void takeApart(const Op &op, double share, LocalWork &work) const;
  void addMetrics(const Op &op, double share, LocalWork &work) const;
  void addRotary(const Op &op, LocalWork &work) const;
  double movedBytes(OpId op, const sharding::OpSharding &choice,
                    const sharding::Mesh &mesh) const;
  /// Whether dtc's own program computes an op while a library makes a product.
  bool isInProduct(OpId op) const;
  double bytesBesideProduct(OpId op, const sharding::OpSharding &choice,
                            const sharding::Mesh &mesh) const;
  LocalWork mergeWork(OpId op, const sharding::OpSharding &choice,
                      const sharding::Mesh &mesh) const;
  /// Of operands or results, or of those of them that have a factor.
  int64_t localBytesOf(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh,
                       std::optional<sharding::FactorId> having, bool isResult) const;
  const Problem &problem;
  const ProblemFacts &facts;
  const CostModel &model;
};

/// Share of an op's iteration space that one device has.
double localShare(const sharding::OpSharding &choice, const sharding::Mesh &mesh);

/// Bytes of one device's shard.
int64_t localBytes(const Value &value, const sharding::TensorSharding &sharding,
                   const sharding::Mesh &mesh);

/// What `bytes` take in memory, where every tensor begins at a cache line.
int64_t placedBytes(int64_t bytes);

/// What one device keeps of a parameter from step to step, and of its gradient. One that isn't
/// trained, as no gradient reaches it, has the parameter alone.
struct ParameterBytes {
  int64_t elements = 0; ///< of the parameter, as its place is rounded up
  int64_t parameter = 0, gradient = 0, states = 0;
  int64_t kept = 0;   ///< of a microbatch's gradient beside the sum
  int64_t update = 0; ///< of temporaries, during the update alone
  int64_t most() const { return parameter + gradient + states + kept + update; }
  /// Bytes that the update reads and writes.
  int64_t updateTraffic() const { return 2 * parameter + gradient + 2 * (states + update); }
};
ParameterBytes parameterBytes(const Problem &problem, ValueId value, bool trained,
                              const sharding::TensorSharding &sharding, const sharding::Mesh &mesh,
                              const Software &software);
/// The same of all parameters, whole on one device.
ParameterBytes modelBytes(const Problem &problem, const ProblemFacts &facts,
                          const Software &software);

} // namespace dtc::plan
