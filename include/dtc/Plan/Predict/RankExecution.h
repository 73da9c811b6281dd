// A plan carried out in order on one rank: ops, the communication between
// them, and the buffers that they use. Prediction is read off it.
//
// Of two products h = x w, y = h v with tp on the inner dimension of both, a microbatch has
//
//   step  runs                  reads        writes
//   0     h = x w               x, w         h
//   1     h v                   h, v         a term of y on each rank
//   2     all-reduce            the term     y
//   ...   and the backward pass, in which dx is summed in the same way
//
// x, w, v and the results are persistent. liveBytes counts the others from the step that writes
// them to the last one that reads them.
#pragma once

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Cost/ProductOverlap.h"
#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/Workspace.h"

#include <map>
#include <memory>

namespace dtc::plan {

enum class StepPass : uint8_t { Forward, Recompute, InputGrad, WeightGrad };

struct ExecutionStep {
  OpId op = -1; ///< that runs, or for which a collective is made
  /// The forward op to which that belongs: where in the model the step is.
  OpId position = 0;
  StepPass pass = StepPass::Forward;
  std::optional<sharding::StepKind> collective;
  sharding::AxisList axes; ///< of the collective
  int64_t bytes = 0;       ///< of the collective, as in sharding::stepBytes
  double seconds = 0;
  double hostSeconds = 0; ///< to launch it
  bool inPlace = false; ///< may write over an operand that dies here
  bool addsTerms = false;         ///< of a weight's gradient, which may have been added earlier
  std::vector<int> reads, writes; ///< buffers
  int saved = -1; ///< the buffer written that is kept inside the op for its backward pass
  /// Of an op whose workspace is measured: where in `reads` the buffer of each operand is, -1
  /// where an operand isn't one whole buffer.
  std::vector<int> operandReads;
  bool backward() const { return pass != StepPass::Forward; }
};

struct Buffer {
  int64_t bytes = 0;
  bool persistent = false; ///< an argument or result: not part of the activations
  bool isCopy = false;     ///< of another one, which the forward pass makes, computed again
  bool isPart = false;     ///< of a larger one, for the backward pass alone
  /// Of a term of a weight's gradient, with which other one of its stage it is added up; -1: where
  /// the step of the sum is.
  int until = -1;
};

/// A gradient that the microbatches leave to be summed once a step.
struct PendingGradient {
  ValueId parameter = -1;
  sharding::AxisList axes; ///< over which it is pending
  int64_t bytes = 0;       ///< of one rank
};

class RankExecution {
public:
  RankExecution(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
            const CostModel &model, const Workspace *workspace = nullptr);

  std::vector<ExecutionStep> steps; ///< of one microbatch
  std::vector<Buffer> buffers;
  std::vector<PendingGradient> pendingGradients;
  /// Parameters with their gradients' buffers.
  std::vector<std::pair<ValueId, int>> gradientBuffers;
  /// Steps from there on only bring results to where they leave the function.
  size_t firstLeaving() const;
  int bufferOf(ValueId argument) const { return copies[argument].front().buffers.front(); }
  /// How a value is laid out where it is made.
  const sharding::TensorSharding &shardingOf(ValueId value) const {
    return copies[value].front().sharding;
  }
  /// Bytes beside operands and results that an op whose workspace is measured needs.
  int64_t workspaceBytes(OpId op, OpPlaces places) const;
  int64_t outputBytes = 0; ///< of the model's outputs
  /// Among which the model is shared out, all chunks counted.
  int64_t stages() const { return plan.degrees.pp * plan.degrees.chunks; }
  /// Whether the program's slots and messages have places (PlacedPrograms.h).
  bool hasPlaces() const;
  /// First reason why the plan can't be carried out, with its op; empty: it can.
  std::string error;
  OpId errorOp = -1;

private:
  struct Copy {
    sharding::TensorSharding sharding;
    std::vector<int> buffers;
    bool gathered = false; ///< from parts, in the forward pass
  };

  void addArguments();
  void make(ValueId value, sharding::TensorSharding sharding, std::vector<int> in);
  bool writesInPlace(const Op &op) const;
  void findStoredValues();
  bool exists(ValueId value) const;
  void runOp(OpId op);
  void runSum(OpId op);
  void finish();
  Copy &bring(ValueId value, const sharding::TensorSharding &sharding, OpId reader);
  Copy reshard(ValueId value, const Copy &from, const sharding::TensorSharding &to,
               OpId reader);
  ExecutionStep stepOf(OpId op) const;
  int addBuffer(int64_t bytes);
  void addRounds(OpId op);
  int64_t unpackedBytes(OpId op) const;
  void addRing(OpId op);
  bool isCopiedPart(ValueId value, int64_t bytes, const std::vector<int> &from) const;
  void addReadAgain(ValueId value, std::vector<ValueId> &to) const;
  bool isKeptPart(ValueId value, int64_t bytes, const std::vector<int> &from) const;
  bool readsItself(OpId op, ValueId operand) const;
  void addMask(OpId op, ExecutionStep &step);
  bool isTakenApart(OpId op) const;
  bool sumsTermsAlone(OpId op) const;
  ValueId gradientOf(OpId sum) const;
  bool isScattered(ValueId gradient) const;
  std::optional<int> stageAt(OpId position) const;
  void holdTermsOf(OpId sum, std::vector<ValueId> terms, bool isOwn);
  void holdTerms(OpId sum, const std::vector<ValueId> &terms);
  void placeAtHome(int result);
  bool isMeasured(OpId op) const;
  bool gathersKeys(OpId op) const;
  bool keepsScores(OpId op) const;
  bool makesScoresAgain(OpId op) const;
  double scoreCopies(OpId op) const;
  double ownScratch(OpId op) const;
  void fail(OpId op, const std::string &message);

  const Problem &problem;
  const ProblemFacts &facts;
  const Plan &plan;
  const CostModel &model;
  const Workspace *workspace; ///< null: of tensors alone
  OpWork work;
  ProductOverlap overlap;
  std::vector<bool> stored; ///< by value, where that isn't as `work` says
  /// Of this execution and of those that are copied from it, which change nothing of it.
  std::shared_ptr<std::vector<std::vector<Copy>>> sharedCopies;
  std::vector<std::vector<Copy>> &copies; ///< by value; the first as it was made
  std::map<OpId, int> saved;             ///< buffers that a forward op keeps for its backward
  std::map<ValueId, Copy> keptParts;     ///< what the backward pass reads of them
};

/// The memory that buffers other than the arguments take at each step, and what it leaves of them.
struct LiveBytes {
  std::vector<int64_t> during, after;
};
LiveBytes liveBytes(const RankExecution &execution);

/// The most of it.
int64_t peakBytes(const RankExecution &execution);

} // namespace dtc::plan
