#include "RandomProblem.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>

namespace dtc::plan::testing {

using sharding::FactorId;
using sharding::FactorKind;

namespace {

using Shape = std::vector<int64_t>;

/// The rule that an einsum-like text says: "bsk,kn->bsn" is a product, summed
/// over k, which is in no result. Upper-case letters are factors of rounds, and
/// "b(he)->bhe" takes a dimension apart.
class Einsum {
public:
  explicit Einsum(const std::string &text) {
    size_t arrow = text.find("->");
    operands = tensors(text.substr(0, arrow));
    results = tensors(text.substr(arrow + 2));
  }

  sharding::ShardingRule rule(const std::map<char, int64_t> &sizes,
                              const std::vector<std::vector<int>> &linear) {
    sharding::ShardingRule result;
    for (const std::vector<std::string> *side : {&operands, &results})
      for (const std::string &tensor : *side)
        for (char letter : tensor)
          if (std::isalpha(letter) && !ids.contains(letter)) {
            ids[letter] = static_cast<FactorId>(result.factors.size());
            result.factors.push_back({sizes.at(letter), kind(letter)});
          }
    for (const std::string &tensor : operands)
      result.operands.push_back(dims(tensor));
    for (const std::string &tensor : results)
      result.results.push_back(dims(tensor));
    result.linear = linear;
    return result;
  }

  /// All-reduces of the results of each row, where a rounds factor is split.
  std::vector<Round> rounds(int count) const {
    std::vector<Round> result;
    for (auto [letter, id] : ids)
      if (std::isupper(letter)) {
        std::vector<FactorId> rows;
        for (char other : operands[0])
          if (other != letter)
            rows.push_back(ids.at(other));
        result.insert(result.end(), count, Round{id, rows, 4});
      }
    return result;
  }

private:
  static std::vector<std::string> tensors(const std::string &list) {
    std::vector<std::string> result(1);
    for (char c : list)
      if (c == ',')
        result.emplace_back();
      else
        result.back() += c;
    return result;
  }
  FactorKind kind(char letter) const {
    bool isResult = std::any_of(results.begin(), results.end(), [&](const std::string &tensor) {
      return tensor.find(letter) != std::string::npos;
    });
    if (std::isupper(letter))
      return FactorKind::Rounds;
    return isResult ? FactorKind::Parallel : FactorKind::Reduction;
  }
  sharding::TensorFactors dims(const std::string &tensor) const {
    sharding::TensorFactors result;
    bool compound = false;
    for (char c : tensor) {
      if (c == '(')
        result.emplace_back();
      if (std::isalpha(c)) {
        if (!compound)
          result.emplace_back();
        result.back().push_back(ids.at(c));
      }
      compound = c == '(' || (compound && c != ')');
    }
    return result;
  }

  std::vector<std::string> operands, results;
  std::map<char, FactorId> ids;
};

class Builder {
public:
  Builder(unsigned seed, const RandomOptions &options) : random(seed), options(options) {}
  Problem build();

private:
  /// Given the gradient of an op's result, makes those of its operands.
  using Backward = std::function<void(ValueId)>;
  struct Making {
    const char *name;
    OpKind kind;
    OpId forward = -1; ///< -1: it is a forward op
    BackwardKind pass = BackwardKind::InputGrad;
    int rounds = 2;
  };

  int below(int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }
  ValueId value(Shape shape, DType type, ValueKind kind, const std::string &name);
  ValueId parameter(const std::string &dims);
  Shape shapeOf(const sharding::ShardingRule &rule, const sharding::TensorFactors &dims) const;
  std::vector<ValueId> op(const Making &making, const std::string &einsum,
                          const std::vector<ValueId> &operands,
                          const std::vector<std::vector<int>> &linear);
  ValueId linear(const Making &making, const std::string &einsum, std::vector<ValueId> operands);
  ValueId contract(const std::string &einsum, ValueId x, ValueId w) {
    return linear({"dtc.contract", OpKind::Contraction}, einsum, {x, w});
  }
  ValueId view(const std::string &einsum, ValueId x) {
    return linear({"dtc.reshape", OpKind::View}, einsum, {x});
  }
  void tapeGradients(ValueId result, const Making &making, const std::string &einsum,
                     const std::vector<ValueId> &operands);
  ValueId pointwise(ValueId x, const std::string &dims);
  ValueId softmax(ValueId x, const std::string &dims);
  ValueId norm(ValueId x);
  ValueId add(ValueId x, ValueId y);
  ValueId bias(ValueId x);
  ValueId part(int kind, ValueId x, ValueId y);
  ValueId recent() { return made[made.size() - 1 - below(std::min<int>(3, int(made.size())))]; }
  void addForward();
  void addBackward(ValueId logits);
  ValueId sum(std::vector<ValueId> parts, OpId forward, ValueId of);
  void addGradients();
  Problem renumbered() const;
  OpId last() const { return static_cast<OpId>(problem.ops.size()) - 1; }

  std::mt19937 random;
  RandomOptions options;
  Problem problem; ///< arguments among the other values until the end
  std::map<char, int64_t> sizes;
  std::vector<ValueId> made; ///< activations of [b, s, k]
  std::map<std::string, std::vector<ValueId>> parameters; ///< by their dimensions
  std::vector<std::pair<ValueId, Backward>> tape;
  std::map<ValueId, std::vector<ValueId>> terms;
};

} // namespace

//===-- values and ops ----------------------------------------------------===//

ValueId Builder::value(Shape shape, DType type, ValueKind kind, const std::string &name) {
  Value v;
  v.shape = std::move(shape);
  v.type = type;
  v.kind = kind;
  v.name = name;
  v.trainable = kind == ValueKind::Parameter;
  problem.values.push_back(std::move(v));
  return static_cast<ValueId>(problem.values.size()) - 1;
}

/// Now and then one that is read already.
ValueId Builder::parameter(const std::string &dims) {
  std::vector<ValueId> &known = parameters[dims];
  if (!known.empty() && below(4) == 0)
    return known[below(int(known.size()))];
  Shape shape;
  for (char letter : dims)
    shape.push_back(sizes.at(letter));
  std::string name = dims + std::to_string(known.size());
  known.push_back(value(shape, DType::F32, ValueKind::Parameter, name));
  return known.back();
}

Shape Builder::shapeOf(const sharding::ShardingRule &rule,
                       const sharding::TensorFactors &dims) const {
  Shape shape;
  for (const std::vector<FactorId> &dim : dims) {
    shape.push_back(1);
    for (FactorId factor : dim)
      shape.back() *= rule.factors[factor].size;
  }
  return shape;
}

std::vector<ValueId> Builder::op(const Making &making, const std::string &einsum,
                                 const std::vector<ValueId> &operands,
                                 const std::vector<std::vector<int>> &linearSets) {
  Einsum text(einsum);
  Op made;
  made.name = making.name;
  made.location = "node" + std::to_string(problem.ops.size());
  made.kind = making.kind;
  made.rule = text.rule(sizes, linearSets);
  made.rounds = text.rounds(making.rounds);
  made.operands = operands;
  if (making.kind == OpKind::Contraction) {
    made.flops = 2;
    for (const sharding::Factor &factor : made.rule->factors)
      made.flops *= double(factor.size);
  }
  made.forward = making.forward < 0 ? static_cast<OpId>(problem.ops.size()) : making.forward;
  if (making.forward >= 0)
    made.backward = making.pass;
  for (const sharding::TensorFactors &dims : made.rule->results)
    made.results.push_back(value(shapeOf(made.rule, dims), DType::F32, ValueKind::Activation, ""));
  problem.ops.push_back(std::move(made));
  return problem.ops.back().results;
}

static std::string swapped(const std::string &einsum, size_t operand, size_t operands) {
  size_t comma = einsum.find(','), arrow = einsum.find("->");
  std::string result = einsum.substr(arrow + 2);
  if (operands == 1)
    return result + "->" + einsum.substr(0, arrow);
  std::string first = einsum.substr(0, comma), second = einsum.substr(comma + 1, arrow - comma - 1);
  return operand == 0 ? result + "," + second + "->" + first : result + "," + first + "->" + second;
}

/// An op that is linear in each operand: its gradients are of its own kind.
void Builder::tapeGradients(ValueId result, const Making &making, const std::string &einsum,
                            const std::vector<ValueId> &operands) {
  OpId self = last();
  tape.emplace_back(result, [=, this](ValueId dy) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (problem.values[operands[i]].type == DType::I64)
        continue;
      Making back = making;
      back.forward = self;
      if (problem.values[operands[i]].kind == ValueKind::Parameter)
        back.pass = BackwardKind::WeightGrad;
      if (making.kind == OpKind::Reduction || making.kind == OpKind::Reindex)
        back.kind = making.kind == OpKind::Reindex ? OpKind::Reduction : OpKind::Reindex;
      std::vector<ValueId> read = {dy};
      std::vector<std::vector<int>> sets = {{0}};
      if (operands.size() == 2) {
        read.push_back(operands[1 - i]);
        sets.push_back({1});
      }
      terms[operands[i]].push_back(
          op(back, swapped(einsum, i, operands.size()), read, sets)[0]);
    }
  });
}

ValueId Builder::linear(const Making &making, const std::string &einsum,
                        std::vector<ValueId> operands) {
  std::vector<std::vector<int>> sets = {{0}};
  if (operands.size() == 2)
    sets.push_back({1});
  ValueId result = op(making, einsum, operands, sets)[0];
  tapeGradients(result, making, einsum, operands);
  return result;
}

//===-- parts of a block --------------------------------------------------===//

ValueId Builder::pointwise(ValueId x, const std::string &dims) {
  ValueId y = op({"dtc.activation", OpKind::Elementwise}, dims + "->" + dims, {x}, {})[0];
  OpId self = last();
  tape.emplace_back(y, [=, this](ValueId dy) {
    std::string einsum = dims + "," + dims + "->" + dims;
    terms[x].push_back(
        op({"dtc.activation_grad", OpKind::Elementwise, self}, einsum, {x, dy}, {{1}})[0]);
  });
  return y;
}

ValueId Builder::softmax(ValueId x, const std::string &dims) {
  ValueId y = op({"dtc.softmax", OpKind::Reduction}, dims + "->" + dims, {x}, {})[0];
  OpId self = last();
  tape.emplace_back(y, [=, this](ValueId dy) {
    std::string einsum = dims + "," + dims + "->" + dims;
    terms[x].push_back(
        op({"dtc.softmax_grad", OpKind::Reduction, self}, einsum, {y, dy}, {{1}})[0]);
  });
  return y;
}

ValueId Builder::norm(ValueId x) {
  ValueId w = parameter("K");
  ValueId y = op({"dtc.rms_norm", OpKind::Normalization}, "bsK,K->bsK", {x, w}, {})[0];
  OpId self = last();
  tape.emplace_back(y, [=, this](ValueId dy) {
    auto grads = op({"dtc.rms_norm_grad", OpKind::Normalization, self}, "bsK,bsK,K->bsK,K",
                    {x, dy, w}, {{1}});
    terms[x].push_back(grads[0]);
    terms[w].push_back(grads[1]);
  });
  return y;
}

ValueId Builder::add(ValueId x, ValueId y) {
  ValueId z = op({"arith.addf", OpKind::Elementwise}, "bsk,bsk->bsk", {x, y}, {{0, 1}})[0];
  tape.emplace_back(z, [=, this](ValueId dz) {
    terms[x].push_back(dz);
    terms[y].push_back(dz);
  });
  return z;
}

ValueId Builder::bias(ValueId x) {
  return add(x, linear({"dtc.broadcast", OpKind::Reindex}, "k->bsk", {parameter("k")}));
}

ValueId Builder::part(int kind, ValueId x, ValueId y) {
  switch (kind) {
  case 0:
    return contract("bsk,kj->bsj", x, parameter("kj")); // j is as large as k
  case 1: // an MLP
    return contract("bsn,nk->bsk",
                    pointwise(contract("bsk,kn->bsn", x, parameter("kn")), "bsn"),
                    parameter("nk"));
  case 2:
    return add(x, y);
  case 3: // a gate
    return linear({"arith.mulf", OpKind::Elementwise}, "bsk,bsk->bsk", {x, y});
  case 4:
    return pointwise(x, "bsk");
  case 5:
    return softmax(x, "bsK");
  case 6:
    return norm(x);
  case 7:
    return bias(x);
  case 8: { // scaled by its own sum over a dimension
    ValueId total = linear({"dtc.reduce", OpKind::Reduction}, "bsk->bs", {x});
    return linear({"arith.mulf", OpKind::Elementwise}, "bsk,bsk->bsk",
                  {x, linear({"dtc.broadcast", OpKind::Reindex}, "bs->bsk", {total})});
  }
  case 9: // by heads
    return view("bshe->bs(he)", softmax(view("bs(he)->bshe", x), "bshE"));
  case 10: // over merged dimensions
    return view("(bs)k->bsk", contract("mk,kj->mj", view("bsk->(bs)k", x), parameter("kj")));
  default: // attention, of one head and taken apart
    return contract("bst,btk->bsk", softmax(contract("bsk,btk->bst", x, y), "bsT"), x);
  }
}

//===-- the graph ---------------------------------------------------------===//

void Builder::addForward() {
  std::vector<int> kinds;
  for (int i = 0; i < options.ops; ++i)
    kinds.push_back(below(12));
  std::vector<unsigned> seeds; // each block reads as the first does
  for (int i = 0; i < options.ops; ++i)
    seeds.push_back(static_cast<unsigned>(random()));
  std::mt19937 outer = random;
  for (int block = 0; block < options.blocks; ++block) {
    made = {made.back()};
    for (int i = 0; i < options.ops; ++i) {
      random.seed(seeds[i]);
      ValueId y = recent();
      made.push_back(part(kinds[i], made.back(), y));
    }
  }
  random = outer;
}

ValueId Builder::sum(std::vector<ValueId> parts, OpId forward, ValueId of) {
  if (parts.size() == 1)
    return parts[0];
  Op made;
  made.name = "dtc.sum";
  made.kind = OpKind::GradientSum;
  made.forward = forward;
  made.backward = BackwardKind::Accumulate;
  sharding::RuleBuilder rule =
      sharding::RuleBuilder::elementwise(parts.size(), 1, problem.values[of].shape);
  std::vector<int> all;
  for (size_t i = 0; i < parts.size(); ++i)
    all.push_back(static_cast<int>(i));
  made.rule = rule.linear(all).build();
  made.operands = std::move(parts);
  made.results = {value(problem.values[of].shape, DType::F32, ValueKind::Activation, "")};
  problem.ops.push_back(std::move(made));
  return problem.ops.back().results[0];
}

void Builder::addBackward(ValueId logits) {
  ValueId target = value({sizes['b'], sizes['s']}, DType::I64, ValueKind::Target, "target");
  ValueId lse = op({"dtc.cross_entropy", OpKind::Loss, -1, {}, 3}, "bsK,bs->bs",
                   {logits, target}, {})[0];
  OpId loss = last();
  terms[logits].push_back(op({"dtc.cross_entropy_grad", OpKind::Loss, loss},
                             "bsk,bs,bs->bsk", {logits, target, lse}, {})[0]);
  std::map<ValueId, OpId> makers;
  for (size_t id = 0; id < problem.ops.size(); ++id)
    for (ValueId result : problem.ops[id].results)
      makers[result] = static_cast<OpId>(id);
  for (auto it = tape.rbegin(); it != tape.rend(); ++it)
    if (terms.contains(it->first)) // else nothing reads it
      it->second(sum(terms[it->first], makers.at(it->first), it->first));
  addGradients();
}

void Builder::addGradients() {
  int64_t calls = problem.numMicrobatches;
  for (ValueId id = 0; id < static_cast<ValueId>(problem.values.size()); ++id) {
    if (problem.values[id].kind != ValueKind::Parameter || !terms.contains(id))
      continue;
    OpId reader = problem.ops.back().forward;
    for (OpId op = last(); op >= 0; --op)
      if (const auto &list = problem.ops[op].operands;
          !problem.ops[op].backward && std::find(list.begin(), list.end(), id) != list.end())
        reader = op;
    ValueId total = sum(terms[id], reader, id);
    std::string name = problem.values[id].name;
    if (calls > 1)
      total = sum({value(problem.values[id].shape, DType::F32, ValueKind::Accumulator, name),
                   total}, reader, id);
    problem.results.push_back({total, ResultKind::Gradient, name});
  }
}

/// Arguments come first.
Problem Builder::renumbered() const {
  Problem result = problem;
  std::vector<ValueId> order;
  for (bool arguments : {true, false})
    for (size_t i = 0; i < problem.values.size(); ++i)
      if ((problem.values[i].kind != ValueKind::Activation) == arguments)
        order.push_back(static_cast<ValueId>(i));
  std::vector<ValueId> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<ValueId>(i);
    result.values[i] = problem.values[order[i]];
    result.arguments += result.values[i].kind != ValueKind::Activation;
  }
  for (Op &op : result.ops)
    for (std::vector<ValueId> *list : {&op.operands, &op.results})
      for (ValueId &id : *list)
        id = place[id];
  for (FunctionResult &each : result.results)
    each.value = place[each.value];
  return result;
}

Problem Builder::build() {
  auto pick = [&](std::initializer_list<int64_t> list) {
    return *(list.begin() + below(int(list.size())));
  };
  sizes['b'] = pick({4, 8});
  sizes['s'] = sizes['t'] = sizes['T'] = pick({16, 64});
  sizes['h'] = pick({2, 4, 8});
  sizes['e'] = sizes['E'] = pick({8, 16});
  sizes['k'] = sizes['K'] = sizes['j'] = sizes['h'] * sizes['e'];
  sizes['n'] = pick({32, 64, 256});
  sizes['m'] = sizes['b'] * sizes['s'];
  sizes['v'] = 512;
  problem.model = "random";
  problem.batch = sizes['b'];
  problem.tokensPerSample = sizes['s'];
  problem.numMicrobatches = options.training ? pick({1, 1, 4}) : 1;
  problem.optimizer = {2, 4, 0, 4};
  if (below(2)) {
    ValueId ids = value({sizes['b'], sizes['s']}, DType::I64, ValueKind::Input, "ids");
    ValueId table = parameter("vk");
    made = {op({"dtc.gather", OpKind::Lookup}, "vk,bs->bsk", {table, ids}, {{0}})[0]};
    OpId self = last();
    tape.emplace_back(made[0], [=, this](ValueId dy) {
      terms[table].push_back(op({"dtc.scatter_add", OpKind::Lookup, self,
                                 BackwardKind::WeightGrad}, "bs,bsk->vk", {ids, dy}, {{1}})[0]);
    });
  } else {
    Shape shape = {sizes['b'], sizes['s'], sizes['k']};
    made = {value(shape, DType::F32, ValueKind::Input, "x")};
  }
  addForward();
  if (options.training)
    addBackward(made.back());
  else
    problem.results.push_back({made.back(), ResultKind::Output, "y"});
  return renumbered();
}

Problem randomProblem(unsigned seed, const RandomOptions &options) {
  return Builder(seed, options).build();
}

} // namespace dtc::plan::testing
