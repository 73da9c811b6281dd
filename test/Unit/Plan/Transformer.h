// Training graphs of transformers of any size, made in memory. They have embedding-free blocks of
// norm, fused attention and MLP with residuals, and a head. The backward pass is in the order in
// which a tape gives it.
#pragma once

#include "Problems.h"

#include <functional>
#include <map>

namespace dtc::plan::testing {

struct TransformerSize {
  int64_t layers = 2, width = 1024, heads = 16, sequence = 1024, batch = 8, vocabulary = 8192;
  DType type = DType::BF16;
  bool trained = true; ///< false: the forward pass alone
  /// Buffers: one of positions, added to the input, and one of each layer, added to what it reads.
  /// From another a table is computed that all layers add.
  bool buffers = false;
  bool oneLayer = false; ///< all layers have the weights of the first, as in ALBERT
};

class Transformer {
public:
  explicit Transformer(TransformerSize size) : size(size) {}

  Problem build() {
    int64_t w = size.width, h = size.heads, e = w / h, b = size.batch, s = size.sequence;
    ValueId x = argument(ValueKind::Input, "x", {b, s, w});
    std::vector<std::vector<ValueId>> weights;
    for (int64_t layer = 0; layer < size.layers; ++layer) {
      if (size.oneLayer && layer > 0) {
        weights.push_back(weights[0]);
        continue;
      }
      std::string p = "h." + std::to_string(layer) + ".";
      weights.push_back({parameter(p + "q", {w, h, e}), parameter(p + "k", {w, h, e}),
                         parameter(p + "v", {w, h, e}), parameter(p + "o", {h, e, w}),
                         parameter(p + "up", {w, 4 * w}), parameter(p + "down", {4 * w, w})});
    }
    ValueId head = parameter("head", {w, size.vocabulary});
    target = argument(ValueKind::Target, "target", {b, s});
    problem.values[target].type = DType::I64;
    std::vector<ValueId> tables;
    for (int64_t layer = 0; size.buffers && layer < size.layers + 2; ++layer)
      tables.push_back(argument(ValueKind::Buffer, "table." + std::to_string(layer), {s, w}));
    problem.arguments = static_cast<int64_t>(problem.values.size());
    ValueId everywhere = -1;
    if (size.buffers) {
      x = addTable(x, tables[size.layers]);
      everywhere = pointwise(tables[size.layers + 1], OpKind::Elementwise);
    }
    for (size_t layer = 0; layer < weights.size(); ++layer) {
      const std::vector<ValueId> &p = weights[layer];
      if (size.buffers)
        x = addTable(addTable(x, tables[layer]), everywhere);
      ValueId y = pointwise(x, OpKind::Normalization);
      y = contract(attention(contract(y, p[0], 1), contract(y, p[1], 1), contract(y, p[2], 1)),
                   p[3], 2);
      x = add(x, y);
      y = contract(pointwise(contract(pointwise(x, OpKind::Normalization), p[4], 1),
                             OpKind::Elementwise), p[5], 1);
      x = add(x, y);
    }
    ValueId logits = contract(pointwise(x, OpKind::Normalization), head, 1);
    problem.batch = b;
    problem.tokensPerSample = s;
    if (!size.trained) {
      problem.results.push_back({logits, ResultKind::Output, "logits"});
      return problem;
    }
    backward(logits);
    problem.optimizer = {2, 4, 4, 4};
    return problem;
  }

private:
  using Grad = std::function<void(ValueId)>;

  ValueId value(std::vector<int64_t> shape, DType type) {
    Value v;
    v.shape = std::move(shape);
    v.type = type;
    problem.values.push_back(std::move(v));
    return static_cast<ValueId>(problem.values.size()) - 1;
  }
  ValueId argument(ValueKind kind, const std::string &name, std::vector<int64_t> shape) {
    ValueId id = value(std::move(shape), size.type);
    problem.values[id].kind = kind;
    problem.values[id].name = name;
    return id;
  }
  ValueId parameter(const std::string &name, std::vector<int64_t> shape) {
    ValueId id = argument(ValueKind::Parameter, name, std::move(shape));
    problem.values[id].trainable = size.trained;
    return id;
  }

  struct Making {
    const char *name;
    OpKind kind;
    double flops = 0;
    OpId forward = -1; ///< -1: is one
    BackwardKind pass = BackwardKind::InputGrad;
  };
  std::vector<ValueId> op(const Making &making, sharding::ShardingRule rule,
                          std::vector<ValueId> operands,
                          const std::vector<std::vector<int64_t>> &shapes, DType type) {
    Op made;
    made.name = making.name;
    made.location = "node" + std::to_string(problem.ops.size());
    made.kind = making.kind;
    made.rule = std::move(rule);
    made.operands = std::move(operands);
    made.flops = making.flops;
    made.forward = making.forward < 0 ? static_cast<OpId>(problem.ops.size()) : making.forward;
    if (making.forward >= 0)
      made.backward = making.pass;
    for (const auto &shape : shapes)
      made.results.push_back(value(shape, type));
    problem.ops.push_back(std::move(made));
    return problem.ops.back().results;
  }
  void addGradient(ValueId of, ValueId gradient) { terms[of].push_back(gradient); }
  OpId last() const { return static_cast<OpId>(problem.ops.size()) - 1; }
  const std::vector<int64_t> &shape(ValueId id) const { return problem.values[id].shape; }

  /// Factors of a product: [b, s, in...] with [in..., out...].
  struct Product {
    std::vector<int64_t> b, in, out;
    double flops = 2;
  };
  sharding::ShardingRule productRule(const Product &p, int which) {
    // 0: x, w -> y    1: y, w -> x    2: x, y -> w
    sharding::RuleBuilder rule(2, 1);
    auto kind = [&](bool summed) {
      return summed ? sharding::FactorKind::Reduction : sharding::FactorKind::Parallel;
    };
    std::vector<sharding::FactorId> b, in, out;
    for (int64_t n : p.b)
      b.push_back(rule.factor(n, kind(which == 2)));
    for (int64_t n : p.in)
      in.push_back(rule.factor(n, kind(which == 0)));
    for (int64_t n : p.out)
      out.push_back(rule.factor(n, kind(which == 1)));
    using List = std::vector<sharding::FactorId>;
    auto operand = [&](int i, std::initializer_list<List *> lists) {
      for (List *list : lists)
        for (auto f : *list)
          rule.operandDim(i, f);
    };
    auto result = [&](std::initializer_list<List *> lists) {
      for (List *list : lists)
        for (auto f : *list)
          rule.resultDim(0, f);
    };
    operand(0, which == 1 ? std::initializer_list<List *>{&b, &out}
                          : std::initializer_list<List *>{&b, &in});
    operand(1, which == 2 ? std::initializer_list<List *>{&b, &out}
                          : std::initializer_list<List *>{&in, &out});
    result(which == 0   ? std::initializer_list<List *>{&b, &out}
           : which == 1 ? std::initializer_list<List *>{&b, &in}
                        : std::initializer_list<List *>{&in, &out});
    rule.linear({0}).linear({1});
    return rule.build();
  }

  ValueId contract(ValueId x, ValueId w, size_t inputs) {
    auto xs = shape(x), ws = shape(w);
    Product p;
    p.b = {xs[0], xs[1]};
    p.in.assign(ws.begin(), ws.begin() + inputs);
    p.out.assign(ws.begin() + inputs, ws.end());
    for (const auto *list : {&p.b, &p.in, &p.out})
      for (int64_t n : *list)
        p.flops *= double(n);
    std::vector<int64_t> ys = p.b;
    ys.insert(ys.end(), p.out.begin(), p.out.end());
    ValueId y = op({"dtc.contract", OpKind::Contraction, p.flops}, productRule(p, 0), {x, w},
                   {ys}, size.type)[0];
    OpId self = last();
    tape.push_back({y, [this, p, self, x, w, xs, ws](ValueId dy) {
      addGradient(x, op({"dtc.contract", OpKind::Contraction, p.flops, self}, productRule(p, 1),
                        {dy, w}, {xs}, size.type)[0]);
      addGradient(w, op({"dtc.contract", OpKind::Contraction, p.flops, self,
                         BackwardKind::WeightGrad}, productRule(p, 2), {x, dy}, {ws},
                        DType::F32)[0]);
    }});
    return y;
  }

  ValueId pointwise(ValueId x, OpKind kind) {
    auto xs = shape(x);
    const char *name = kind == OpKind::Normalization ? "dtc.rms_norm" : "dtc.activation";
    auto rule = [&, xs](size_t operands) {
      return sharding::RuleBuilder::elementwise(operands, 1, xs).build();
    };
    ValueId y = op({name, kind}, rule(1), {x}, {xs}, size.type)[0];
    OpId self = last();
    tape.push_back({y, [this, self, x, xs, kind, name](ValueId dy) {
      addGradient(x, op({name, kind, 0, self},
                        sharding::RuleBuilder::elementwise(2, 1, xs).linear({1}).build(),
                        {x, dy}, {xs}, size.type)[0]);
    }});
    return y;
  }

  ValueId add(ValueId x, ValueId y) {
    auto xs = shape(x);
    ValueId z = op({"arith.addf", OpKind::Elementwise},
                   sharding::RuleBuilder::elementwise(2, 1, xs).linear({0, 1}).build(), {x, y},
                   {xs}, size.type)[0];
    tape.push_back({z, [this, x, y](ValueId dz) {
      addGradient(x, dz);
      addGradient(y, dz);
    }});
    return z;
  }

  /// y[b, s, w] = x[b, s, w] + table[s, w]
  ValueId addTable(ValueId x, ValueId table) {
    auto xs = shape(x);
    sharding::RuleBuilder rule(2, 1);
    auto b = rule.factor(xs[0]), s = rule.factor(xs[1]), w = rule.factor(xs[2]);
    rule.operandDim(0, b).operandDim(0, s).operandDim(0, w).operandDim(1, s).operandDim(1, w);
    rule.resultDim(0, b).resultDim(0, s).resultDim(0, w);
    ValueId y = op({"arith.addf", OpKind::Elementwise}, rule.build(), {x, table}, {xs},
                   size.type)[0];
    tape.push_back({y, [this, x](ValueId dy) { addGradient(x, dy); }});
    return y;
  }

  ValueId attention(ValueId q, ValueId k, ValueId v) {
    auto qs = shape(q);
    auto rule = [&](size_t operands, size_t results) {
      sharding::RuleBuilder builder(operands, results);
      auto b = builder.factor(qs[0]), s = builder.factor(qs[1], sharding::FactorKind::Rounds),
           t = builder.factor(qs[1], sharding::FactorKind::Rounds), h = builder.factor(qs[2]),
           e = builder.factor(qs[3], sharding::FactorKind::Whole);
      for (size_t i = 0; i < operands; ++i) // q, k, v, dy
        builder.operandDim(i, b).operandDim(i, i == 1 || i == 2 ? t : s).operandDim(i, h)
            .operandDim(i, e);
      for (size_t i = 0; i < results; ++i) // y; dq, dk, dv
        builder.resultDim(i, b).resultDim(i, i > 0 ? t : s).resultDim(i, h).resultDim(i, e);
      return builder.build();
    };
    double flops = 4.0 * double(qs[0] * qs[1] * qs[1] * qs[2] * qs[3]);
    ValueId y = op({"dtc.attention", OpKind::Attention, flops}, rule(3, 1), {q, k, v}, {qs},
                   size.type)[0];
    OpId self = last();
    Op &forward = problem.ops.back();
    forward.causal = forward.keepRounds = true;
    forward.scratch = forward.saved = 4.0 * double(qs[0] * qs[1] * qs[1] * qs[2]);
    auto backwardRule = rule(4, 3);
    tape.push_back({y, [this, self, q, k, v, qs, flops, backwardRule](ValueId dy) {
      auto made = op({"dtc.attention_grad", OpKind::Attention, 2.5 * flops, self}, backwardRule,
                     {q, k, v, dy}, {qs, qs, qs}, size.type);
      Op &grad = problem.ops.back();
      grad.causal = grad.keepRounds = true;
      grad.scratch = 4.0 * double(qs[0] * qs[1] * qs[1] * qs[2]);
      addGradient(q, made[0]);
      addGradient(k, made[1]);
      addGradient(v, made[2]);
    }});
    return y;
  }

  /// The gradient of a value: its terms added up.
  ValueId sum(ValueId of, OpId forward) {
    std::vector<ValueId> parts = terms[of];
    if (parts.size() == 1)
      return parts[0];
    auto vs = shape(of);
    std::vector<int> all;
    for (size_t i = 0; i < parts.size(); ++i)
      all.push_back(static_cast<int>(i));
    return op({"dtc.sum", OpKind::GradientSum, 0, forward, BackwardKind::Accumulate},
              sharding::RuleBuilder::elementwise(parts.size(), 1, vs).linear(all).build(), parts,
              {vs}, problem.values[parts[0]].type)[0];
  }

  static sharding::ShardingRule lossRule(const std::vector<int64_t> &logits) {
    sharding::RuleBuilder rule(2, 1);
    auto b = rule.factor(logits[0]), s = rule.factor(logits[1]), v = rule.factor(logits[2]);
    rule.operandDim(0, b).operandDim(0, s).operandDim(0, v).operandDim(1, b).operandDim(1, s);
    rule.resultDim(0, b).resultDim(0, s).resultDim(0, v);
    return rule.build();
  }

  void backward(ValueId output) {
    auto ys = shape(output);
    ValueId dy = op({"dtc.cross_entropy_grad", OpKind::Loss, 0, last()},
                    lossRule(ys), {output, target}, {ys}, size.type)[0];
    terms[output] = {dy};
    std::map<ValueId, OpId> makers;
    for (size_t id = 0; id < problem.ops.size(); ++id)
      for (ValueId made : problem.ops[id].results)
        makers[made] = static_cast<OpId>(id);
    for (auto it = tape.rbegin(); it != tape.rend(); ++it)
      if (terms.contains(it->first)) // else computed from buffers
        it->second(sum(it->first, makers.at(it->first)));
    for (ValueId id = 0; id < problem.arguments; ++id)
      if (problem.values[id].kind == ValueKind::Parameter)
        problem.results.push_back({sum(id, last()), ResultKind::Gradient, problem.values[id].name});
  }

  TransformerSize size;
  Problem problem;
  ValueId target = -1;
  std::vector<std::pair<ValueId, Grad>> tape;
  std::map<ValueId, std::vector<ValueId>> terms;
};

inline Problem transformer(TransformerSize size) { return Transformer(size).build(); }

/// 7 and 13 billion parameters, and 175.
inline TransformerSize gpt7b(int64_t batch) { return {32, 4096, 32, 2048, batch, 50304}; }
inline TransformerSize gpt13b(int64_t batch) { return {40, 5120, 40, 2048, batch, 50304}; }
inline TransformerSize gpt175b(int64_t batch) { return {96, 12288, 96, 2048, batch, 51200}; }

} // namespace dtc::plan::testing
