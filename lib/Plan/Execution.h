// A plan carried out in order on one rank: ops, the communication between
// them, and the buffers that they use. Prediction is read off it.
#pragma once

#include "OpWork.h"

#include "dtc/Plan/Plan.h"

#include <map>

namespace dtc::plan {

struct ExecutionStep {
  OpId op = -1; ///< that runs, or for which a collective is made
  std::optional<sharding::StepKind> collective;
  sharding::AxisList axes; ///< of the collective
  int64_t bytes = 0;       ///< of the collective, as in sharding::stepBytes
  double seconds = 0;
  bool backward = false;
  bool inPlace = false; ///< may write over an operand that dies here
  std::vector<int> reads, writes; ///< buffers
};

struct Buffer {
  int64_t bytes = 0;
  bool persistent = false; ///< an argument: not part of the activations
  bool result = false;     ///< lives until the end
};

class Execution {
public:
  Execution(const Problem &problem, const ProblemFacts &facts, const Plan &plan,
            const CostModel &model);

  std::vector<ExecutionStep> steps; ///< of one microbatch
  std::vector<Buffer> buffers;
  /// Bytes per rank of the gradients still pending over each set of axes once
  /// all microbatches are done, by parameter.
  std::vector<std::pair<sharding::AxisList, int64_t>> pendingGradients;
  /// First reason why the plan can't be carried out, with its op; empty: it can.
  std::string error;
  OpId errorOp = -1;

private:
  struct Copy {
    sharding::TensorSharding layout;
    std::vector<int> buffers;
  };

  void addArguments();
  void runOp(OpId op);
  void runSum(OpId op);
  void finish();
  Copy &bring(ValueId value, const sharding::TensorSharding &layout, OpId reader);
  Copy reshard(const Value &value, const Copy &from, const sharding::TensorSharding &to,
               OpId reader);
  int addBuffer(int64_t bytes);
  void addRounds(OpId op);
  void fail(OpId op, const std::string &message);

  const Problem &problem;
  const ProblemFacts &facts;
  const Plan &plan;
  const CostModel &model;
  OpWork work;
  std::vector<std::vector<Copy>> copies; ///< by value; the first as it was made
  std::map<OpId, int> saved;             ///< buffers that a forward op keeps for its backward
};

/// The most memory that buffers other than the arguments take at once.
int64_t peakBytes(const Execution &execution);

} // namespace dtc::plan
