// What an op does on one device when its factors are split in a chosen way: operations, bytes and
// sizes, which the cost model turns into seconds.
//
// Take h[b,s,n] = x[b,s,k] w[k,n] in bf16 with b = 4, s = 1024, k = 2048, n = 8192 on an H100. On
// the mesh <tp=4> one device has
//
//   tp on    operations  reads and writes  as a product          seconds
//   nothing  137 G       117 MB            4096 x 8192 x 2048    222 us
//   n        34 G         42 MB            4096 x 2048 x 2048     59 us
//   k        34 G         80 MB            4096 x 8192 x  512     61 us
//
// With tp on k each device has a term of the sum h. Adding these up is no work of the op: the
// planner prices it as a collective.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Sharding/Ring.h"

namespace dtc::plan {

/// An all-reduce inside an op whose rounds factor is split.
struct RoundUse {
  sharding::AxisList axes;
  int64_t bytes = 0;
};

/// What an op computes, without communication.
struct Computing {
  double seconds = 0;
  int64_t kernels = 0; ///< that are launched
};

/// A tensor that goes round the ranks inside an op (Sharding/Ring.h): each rank sends its part to
/// the next one, several times.
struct RingUse {
  sharding::AxisList axes;
  int64_t bytes = 0;  ///< that a rank sends each time
  int64_t times = 0;  ///< one less than there are ranks
  double seconds = 0; ///< of all times together, beyond what the op's steps hide
};

class OpWork {
public:
  OpWork(const Problem &problem, const ProblemFacts &facts, const CostModel &model)
      : problem(problem), facts(facts), model(model) {}

  /// The op's work on one device. Where tensors go round, it is that of one step of the ring.
  LocalWork work(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;
  /// The time of the op without communication, of all steps of a ring together.
  Computing computing(OpId op, const sharding::OpSharding &choice,
                      const sharding::Mesh &mesh) const;
  std::vector<RoundUse> rounds(OpId op, const sharding::OpSharding &choice,
                               const sharding::Mesh &mesh) const;
  bool goesRound(OpId op, const sharding::OpSharding &choice) const;
  std::vector<RingUse> ring(OpId op, const sharding::OpSharding &choice,
                            const sharding::Mesh &mesh) const;
  /// The bytes that a ring holds beside what one of its steps needs: the parts that are on their
  /// way, and the results of the steps so far.
  int64_t ringBytes(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;
  /// Time of adding up the terms of a GradientSum, of which a device has so many bytes each. What
  /// earlier microbatches left isn't among them.
  double sumSeconds(OpId op, int64_t bytes) const;
  /// Time of the op itself with the communication inside it.
  double seconds(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;

  /// Global bytes of temporaries inside an op, and of those kept for its backward pass. On GPUs a
  /// fused attention needs neither (Dao et al., FlashAttention, NeurIPS 2022). Another one keeps
  /// the probabilities in the type of its operands instead of in f32. With dropout it keeps a mask
  /// and what that leaves of them (Korthikanti et al. 2022, section 4.1). A loss that isn't fused
  /// copies its logits to f32 and keeps their probabilities.
  double scratchBytes(OpId op) const;
  /// What the library that takes attention whole in dtc's own programs needs for a device's part.
  double workspaceBytes(OpId op, const sharding::OpSharding &choice,
                        const sharding::Mesh &mesh) const;
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
  /// Whether kernels are those that dtc's own programs have on GPUs.
  bool isOwn() const;
  /// Whether an op is a bias that the product before it adds.
  bool isEpilogue(OpId op) const;
  double logitBytes(const Op &op) const;
  void takeApart(const Op &op, double share, LocalWork &work) const;
  void addMetrics(const Op &op, double share, LocalWork &work) const;
  void addRotary(const Op &op, LocalWork &work) const;
  double movedBytes(OpId op, const sharding::OpSharding &choice,
                    const sharding::Mesh &mesh) const;
  /// Whether a value is a parameter, perhaps cast or broadcast.
  bool isParameter(ValueId value) const;
  double countedBytes(OpId op, const sharding::OpSharding &choice,
                      const sharding::Mesh &mesh) const;
  double heldBytes(ValueId value, const sharding::TensorFactors &factors,
                   const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;
  void addWidening(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh,
                   LocalWork &work) const;
  double rowsAdded(OpId op, const sharding::OpSharding &choice, const sharding::Mesh &mesh) const;
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
/// The same of an operand or result of an op, as the choice lays it out.
int64_t localBytes(const Value &value, const sharding::TensorFactors &tensor,
                   const sharding::OpSharding &choice, const sharding::Mesh &mesh);

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
