// What is to be planned, as plain data. It has the graph of one microbatch over all ranks (forward
// and backward), what the optimizer keeps, and how much of it there is. No IR: a problem can be
// saved as JSON and planned from the file.
//
// Values and ops are numbered densely. An op's operands are values with lower producers, so ops
// stand in an order in which they can be executed. For y = x * w with its gradients:
//
//   values  0 x (input)  1 w (parameter)  2 y  3 dy  4 dx  5 dw
//   ops     0 contract (0,1)->(2)                     forward, id 0
//           ...                                       (makes dy)
//           5 contract (3,1)->(4)   forward 0, input_grad
//           6 contract (0,3)->(5)   forward 0, weight_grad
#pragma once

#include "dtc/Plan/Plan/Result.h"
#include "dtc/Sharding/AttentionWorkspace.h"
#include "dtc/Sharding/OpCost.h"
#include "dtc/Sharding/SharedRule.h"
#include "dtc/Sharding/Strides.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtc::plan {

using ValueId = int32_t;
using OpId = int32_t;

enum class DType : uint8_t { F64, F32, BF16, F16, I64, I32, I8, U8, Bool };
int64_t byteSize(DType type);

enum class ValueKind : uint8_t {
  Parameter,
  Buffer,
  Input,
  Target,
  Scalar,
  Accumulator, ///< argument: loss or gradient summed up by earlier microbatches
  Activation   ///< computed by an op
};
/// "parameter", "buffer", ... as plan files have it.
const char *name(ValueKind kind);

/// What a function result is for. A value may be the result several times.
enum class ResultKind : uint8_t { Output, Loss, Gradient };

struct Value {
  std::string name; ///< of arguments: the parameter's or input's name in the file
  std::vector<int64_t> shape;
  DType type = DType::F32;
  ValueKind kind = ValueKind::Activation;
  bool trainable = false; ///< of parameters
  /// Of a parameter that isn't trained and is kept in integers: the bits of an element and of
  /// its share of the scales. 0: it is kept in its type.
  double storedBits = 0;
  int64_t padding = 0; ///< of a parameter or of tokens: how many elements no file has (Padding.h)
  bool operator==(const Value &) const = default;

  int64_t elements() const;
  int64_t bytes() const { return elements() * byteSize(type); }
};

/// "8x64"; "scalar" without dimensions.
std::string shapeText(const std::vector<int64_t> &shape);

using sharding::OpKind;

enum class BackwardKind : uint8_t { InputGrad, WeightGrad, Accumulate, Recompute };

/// Communication inside an op whose rounds factor is split: an all-reduce of a
/// tensor with the listed factors.
struct Round {
  sharding::FactorId factor = 0;
  std::vector<sharding::FactorId> tensor;
  int64_t elementBytes = 4;
  bool operator==(const Round &) const = default;
};

struct Op {
  std::string name;     ///< "dtc.contract"
  std::string location; ///< node of the model file it comes from
  OpKind kind = OpKind::Other;
  sharding::SharedRule rule;
  std::vector<ValueId> operands, results;
  double flops = 0;   ///< of the contractions inside
  double padding = 0; ///< of these, how many are on what files don't have (Padding.h)
  double scratch = 0; ///< bytes of temporaries inside, global
  double saved = 0;   ///< bytes of those that stay for the op's own backward pass, global
  bool dear = false;  ///< elementwise: more than sums and products, as OpCost says
  std::vector<Round> rounds;
  /// Rounds factors that the planner doesn't split of its own accord. The op would have to be taken
  /// apart inside, at a price that `rounds` can't say.
  bool keepRounds = false;
  bool causal = false; ///< attention: a query sees only keys up to its own
  /// Of those only so many, the last ones, as the last operand's mask says; 0: all.
  int64_t window = 0;
  /// Of what reads its operand by strides: by dimension of the result, or empty.
  std::vector<sharding::DimRead> reads;
  /// Attention that dtc's own program computes as products and a softmax, as no library of the
  /// target takes it whole.
  bool decomposed = false;
  /// Of the library that takes attention whole instead.
  sharding::AttentionWorkspace workspace;
  /// Elements that offsets and strides are multiples of, where that library reads and writes parts
  /// of tensors; 0: it takes whole ones alone, and parts are copied.
  int64_t partAlignment = 0;
  /// dtc's own program computes it while a library makes a product, if the target's can.
  bool inProduct = false;
  /// Of half precision in dtc's own program. A product with a result in f32 is given in the
  /// operands' type by the target's library, and a kernel widens it. Or the library multiplies no
  /// such type, and products and attention are of copies in f32 (multipliesCopies). Sums of windows
  /// (Reduction) are in f32 in memory, and rounded where they are read.
  bool widened = false;
  /// A factor whose parts are equal on average only, as what each holds is known when the program
  /// runs. Experts are one, with the rows that chose them. Only ep splits it; -1: none.
  sharding::FactorId groupedExperts = -1;
  /// The op of this list that this one belongs to: itself for a forward op,
  /// its forward op for a backward op, -1 for neither.
  OpId forward = -1;
  std::optional<BackwardKind> backward;
  /// Rows, weights of all experts, and which of them each row chose.
  bool isGroupedProduct() const { return kind == OpKind::Contraction && operands.size() == 3; }
  bool operator==(const Op &) const = default;
};

struct FunctionResult {
  ValueId value = 0;
  ResultKind kind = ResultKind::Output;
  std::string name; ///< gradient: the parameter's name
  bool operator==(const FunctionResult &) const = default;
};

/// What the update of a parameter reads and writes, per element.
struct OptimizerFacts {
  int states = 0;            ///< tensors kept per parameter
  int64_t stateBytes = 4;    ///< per element of one of them
  int64_t masterBytes = 0;   ///< of an fp32 master copy, 0 without
  int64_t gradientBytes = 0; ///< 0: the gradient result's own type
  bool operator==(const OptimizerFacts &) const = default;
};

struct Problem {
  std::string model;
  std::vector<Value> values; ///< the function's arguments first, in order
  std::vector<Op> ops;
  std::vector<FunctionResult> results;
  OptimizerFacts optimizer;
  int64_t arguments = 0;       ///< how many values are arguments
  int64_t batch = 0;           ///< samples of one call, over all ranks; 0: unknown
  int64_t numMicrobatches = 1; ///< calls in one step
  int64_t tokensPerSample = 0; ///< 0: not a token model
  int64_t fileNodes = 0;       ///< nodes of the model file
  bool operator==(const Problem &) const = default;

  int64_t parameterElements() const; ///< of the model's own, without padding
  int64_t paddingElements() const;   ///< what parameters have beside them
  int64_t globalBatch() const { return batch * numMicrobatches; }
};

/// Empty when ids, shapes and rules agree; otherwise one line about the first
/// that doesn't.
std::string check(const Problem &problem);

/// Accumulators of gradients have the same names, and aren't among them.
std::map<std::string, ValueId> parametersByName(const Problem &problem);

/// What an op adds to the kernels of dtc's own programs on GPUs (KernelParts.h).
struct KernelPart {
  std::vector<int> reads;  ///< by operand: how many kernels read it for this op first
  std::vector<int> writes; ///< by result: whether it is written
  int launches = 0;
  bool isCounted = false;   ///< else the op is priced alone, as a library's call or a look-up
  bool addsInPlace = false; ///< a sum by index that goes to where the other terms of a sum are
  bool operator==(const KernelPart &) const = default;
};

/// Facts that follow from a problem and that every planner needs.
struct ProblemFacts {
  explicit ProblemFacts(const Problem &problem);

  std::vector<OpId> producer;               ///< by value; -1 for arguments
  std::vector<std::vector<OpId>> consumers; ///< by value, ascending, each op once
  /// By value: the dimension whose leading part is the batch, or -1; by op: the
  /// factor. Found by propagating the inputs' first dimension through the rules,
  /// in both directions.
  std::vector<int> batchDim;
  std::vector<sharding::FactorId> batchFactor;
  /// The same for the sequence, the second dimension of integer inputs; an op
  /// may have several such factors (queries and keys).
  std::vector<int> sequenceDim;
  std::vector<std::vector<sharding::FactorId>> sequenceFactors;
  /// By op: the one of those factors that context parallelism splits (attention
  /// splits its queries, and every rank reads all keys), or -1.
  std::vector<sharding::FactorId> sequenceSplit;
  /// Why tokens of a sequence keep their order on every mesh, or "" (SequenceOrder.h). Where meshes
  /// decide it: the first op of each size that context parallelism splits.
  std::string keepsOrder;
  std::vector<OpId> sequenceSizes;
  /// By value: whether it is a sum over the batch, of which every part of the batch has a term. By
  /// op: the linear set through which such terms pass, or -1 where they are summed up first. The
  /// same for the sequence.
  std::vector<bool> batchPending, sequencePending;
  std::vector<int> batchLinear, sequenceLinear;
  /// By op: whether it depends on nothing that varies or is trained (rotary
  /// tables, masks).
  std::vector<bool> isStatic;
  /// The last op of the forward pass; 0 without ops.
  OpId lastForward = 0;
  /// By op: its place in the forward pass. That of a backward op is the place of the op that
  /// it belongs to.
  std::vector<OpId> position;
  /// By value: whether the function returns it.
  std::vector<bool> isResult;
  /// By value: whether it exists in memory, or only within a fused kernel.
  std::vector<bool> materialized;
  std::vector<KernelPart> kernelParts; ///< by op
  /// By gradient value: the forward value it is the gradient of, or -1.
  std::vector<ValueId> gradientOf;
  /// By argument: the index of its gradient among the results, or -1.
  std::vector<int> gradientResult;
};

/// The same graph for another number of samples in a call: whatever carries the
/// batch is rescaled, as extracting it again would give. Refused (NoFit)
/// where the batch isn't known or sizes don't allow it.
Result<Problem> rebatched(const Problem &problem, const ProblemFacts &facts, int64_t samples);

/// The same graph for context parallelism over so many ranks, each of which has a
/// part of every sequence.
///
/// Queries of a causal attention may be split, as its ranks know where theirs begin.
/// They then have a term each of the gradients of keys and values.
///
/// Rows that choose their experts (Op::groupedExperts) are dispatched by the rank that has
/// their tokens. Between dispatch and combine a sample's rows are in the order of c
/// parts of its sequence, then of e parts of the experts:
///
///   hidden[b,(c e r),f] = rows[b,(c e r),m] * wi[(e x),f,m]      cp splits c, ep splits e
///
/// so that all-to-alls are among the ep ranks that have the same part of sequences. Each of the cp
/// ranks has a term of the gradients of experts. Rows that can't be shared out evenly stay whole.
Problem withSplitSequence(Problem problem, int64_t ranks);

std::string toJson(const Problem &problem);
Result<Problem> problemFromJson(const std::string &text, const std::string &file);

} // namespace dtc::plan
