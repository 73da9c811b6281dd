// A Problem as JSON, so that planning can be tested from files.
#include "dtc/Plan/Plan/Problem.h"

#include "dtc-io/Json.h"

/// Throws what nlohmann's parser throws where a name is not one of an enum's:
/// its macros alone would take the first.
template <typename Enum> static Enum known(const nlohmann::json &j) {
  Enum value = j.get<Enum>();
  if (nlohmann::json(value) != j)
    throw nlohmann::json::other_error::create(501, "unknown name: " + j.dump(), &j);
  return value;
}

namespace dtc::sharding {
using nlohmann::json;

NLOHMANN_JSON_SERIALIZE_ENUM(OpKind, {{OpKind::Other, "other"},
                                      {OpKind::Contraction, "contraction"},
                                      {OpKind::Attention, "attention"},
                                      {OpKind::Elementwise, "elementwise"},
                                      {OpKind::View, "view"},
                                      {OpKind::Reindex, "reindex"},
                                      {OpKind::Join, "join"},
                                      {OpKind::Reduction, "reduction"},
                                      {OpKind::Normalization, "normalization"},
                                      {OpKind::Loss, "loss"},
                                      {OpKind::Lookup, "lookup"},
                                      {OpKind::GradientSum, "gradient_sum"}})
NLOHMANN_JSON_SERIALIZE_ENUM(FactorKind, {{FactorKind::Parallel, "parallel"},
                                          {FactorKind::Reduction, "reduction"},
                                          {FactorKind::Rounds, "rounds"},
                                          {FactorKind::Whole, "whole"}})
NLOHMANN_JSON_SERIALIZE_ENUM(ReduceKind, {{ReduceKind::Sum, "sum"},
                                          {ReduceKind::Max, "max"},
                                          {ReduceKind::Min, "min"}})

static void to_json(json &j, const Factor &factor) {
  j = json{{"size", factor.size}};
  if (factor.kind != FactorKind::Parallel)
    j["kind"] = factor.kind;
  if (factor.reduce != ReduceKind::Sum)
    j["reduce"] = factor.reduce;
}
static void from_json(const json &j, Factor &factor) {
  factor.size = j.at("size").get<int64_t>();
  if (j.contains("kind"))
    factor.kind = known<FactorKind>(j["kind"]);
  if (j.contains("reduce"))
    factor.reduce = known<ReduceKind>(j["reduce"]);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardingRule, factors, operands, results, linear)

static void to_json(json &j, const DimRead &read) { j = {read.dim, read.start, read.step}; }
static void from_json(const json &j, DimRead &read) {
  j.at(0).get_to(read.dim);
  j.at(1).get_to(read.start);
  j.at(2).get_to(read.step);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AttentionWorkspace, fixed, perQuery, perSharedKey, tile)

} // namespace dtc::sharding

namespace dtc::plan {
using nlohmann::json;

NLOHMANN_JSON_SERIALIZE_ENUM(DType, {{DType::F32, "f32"}, {DType::F64, "f64"},
                                     {DType::BF16, "bf16"}, {DType::F16, "f16"},
                                     {DType::I64, "i64"}, {DType::I32, "i32"},
                                     {DType::I8, "i8"}, {DType::U8, "u8"},
                                     {DType::Bool, "bool"}})
NLOHMANN_JSON_SERIALIZE_ENUM(ValueKind, {{ValueKind::Activation, "activation"},
                                         {ValueKind::Parameter, "parameter"},
                                         {ValueKind::Buffer, "buffer"},
                                         {ValueKind::Input, "input"},
                                         {ValueKind::Target, "target"},
                                         {ValueKind::Scalar, "scalar"},
                                         {ValueKind::Accumulator, "accumulator"}})
NLOHMANN_JSON_SERIALIZE_ENUM(ResultKind, {{ResultKind::Output, "output"},
                                          {ResultKind::Loss, "loss"},
                                          {ResultKind::Gradient, "gradient"}})
NLOHMANN_JSON_SERIALIZE_ENUM(BackwardKind, {{BackwardKind::InputGrad, "input_grad"},
                                            {BackwardKind::WeightGrad, "weight_grad"},
                                            {BackwardKind::Accumulate, "accumulate"},
                                            {BackwardKind::Recompute, "recompute"}})

static void to_json(json &j, const Value &value) {
  j = json{{"shape", value.shape}, {"type", value.type}, {"kind", value.kind}};
  if (!value.name.empty())
    j["name"] = value.name;
  if (value.trainable)
    j["trainable"] = true;
  if (value.storedBits != 0)
    j["stored_bits"] = value.storedBits;
  if (value.padding != 0)
    j["padding"] = value.padding;
}
static void from_json(const json &j, Value &value) {
  j.at("shape").get_to(value.shape);
  value.type = known<DType>(j.at("type"));
  value.kind = known<ValueKind>(j.at("kind"));
  value.name = j.value("name", "");
  value.trainable = j.value("trainable", false);
  value.storedBits = j.value("stored_bits", 0.0);
  value.padding = j.value("padding", int64_t(0));
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Round, factor, tensor, elementBytes)

static void to_json(json &j, const Op &op) {
  j = json{{"name", op.name},         {"kind", op.kind},       {"rule", *op.rule},
           {"operands", op.operands}, {"results", op.results}, {"forward", op.forward}};
  if (!op.location.empty())
    j["location"] = op.location;
  if (op.flops != 0)
    j["flops"] = op.flops;
  if (op.padding != 0)
    j["padding"] = op.padding;
  if (op.scratch != 0)
    j["scratch"] = op.scratch;
  if (op.saved != 0)
    j["saved"] = op.saved;
  if (op.dear)
    j["dear"] = true;
  if (!op.rounds.empty())
    j["rounds"] = op.rounds;
  if (op.keepRounds)
    j["keep_rounds"] = true;
  if (op.causal)
    j["causal"] = true;
  if (op.window != 0)
    j["window"] = op.window;
  if (!op.reads.empty())
    j["reads"] = op.reads;
  if (op.decomposed)
    j["decomposed"] = true;
  if (op.workspace != sharding::AttentionWorkspace())
    j["workspace"] = op.workspace;
  if (op.partAlignment != 0)
    j["part_alignment"] = op.partAlignment;
  if (op.inProduct)
    j["in_product"] = true;
  if (op.widened)
    j["widened"] = true;
  if (op.groupedExperts >= 0)
    j["grouped_experts"] = op.groupedExperts;
  if (op.backward)
    j["backward"] = *op.backward;
}
static void from_json(const json &j, Op &op) {
  j.at("name").get_to(op.name);
  op.kind = known<OpKind>(j.at("kind"));
  op.rule = j.at("rule").get<sharding::ShardingRule>();
  j.at("operands").get_to(op.operands);
  j.at("results").get_to(op.results);
  j.at("forward").get_to(op.forward);
  op.location = j.value("location", "");
  op.flops = j.value("flops", 0.0);
  op.padding = j.value("padding", 0.0);
  op.scratch = j.value("scratch", 0.0);
  op.saved = j.value("saved", 0.0);
  op.dear = j.value("dear", false);
  op.rounds = j.value("rounds", std::vector<Round>{});
  op.keepRounds = j.value("keep_rounds", false);
  op.causal = j.value("causal", false);
  op.window = j.value("window", int64_t(0));
  op.reads = j.value("reads", std::vector<sharding::DimRead>{});
  op.decomposed = j.value("decomposed", false);
  op.workspace = j.value("workspace", sharding::AttentionWorkspace());
  op.workspace.tile = std::max<int64_t>(1, op.workspace.tile);
  op.partAlignment = j.value("part_alignment", int64_t(0));
  op.inProduct = j.value("in_product", false);
  op.widened = j.value("widened", false);
  op.groupedExperts = j.value("grouped_experts", -1);
  if (j.contains("backward"))
    op.backward = known<BackwardKind>(j["backward"]);
}

static void to_json(json &j, const FunctionResult &result) {
  j = json{{"value", result.value}, {"kind", result.kind}, {"name", result.name}};
}
static void from_json(const json &j, FunctionResult &result) {
  j.at("value").get_to(result.value);
  result.kind = known<ResultKind>(j.at("kind"));
  j.at("name").get_to(result.name);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptimizerFacts, states, stateBytes, masterBytes, gradientBytes)

std::string toJson(const Problem &problem) {
  json j = {{"model", problem.model},
            {"batch", problem.batch},
            {"num_microbatches", problem.numMicrobatches},
            {"tokens_per_sample", problem.tokensPerSample},
            {"file_nodes", problem.fileNodes},
            {"optimizer", problem.optimizer},
            {"arguments", problem.arguments},
            {"results", problem.results}};
  // One value or op a line: such files are read and compared by people.
  std::string text = j.dump(1);
  text.resize(text.rfind('}') - 1);
  auto list = [&](const char *key, const auto &items) {
    text += std::string(",\n \"") + key + "\": [";
    for (size_t i = 0; i < items.size(); ++i)
      text += (i ? ",\n  " : "\n  ") + json(items[i]).dump();
    text += "\n ]";
  };
  list("values", problem.values);
  list("ops", problem.ops);
  return text + "\n}\n";
}

Result<Problem> problemFromJson(const std::string &text, const std::string &file) {
  if (std::string wrong = io::checkJson(text); !wrong.empty())
    return Error{file + ": " + wrong};
  try {
    json j = json::parse(text);
    Problem problem;
    j.at("model").get_to(problem.model);
    j.at("batch").get_to(problem.batch);
    j.at("num_microbatches").get_to(problem.numMicrobatches);
    problem.tokensPerSample = j.value("tokens_per_sample", int64_t{0});
    problem.fileNodes = j.value("file_nodes", int64_t{0});
    j.at("optimizer").get_to(problem.optimizer);
    j.at("arguments").get_to(problem.arguments);
    j.at("results").get_to(problem.results);
    j.at("values").get_to(problem.values);
    j.at("ops").get_to(problem.ops);
    if (std::string error = check(problem); !error.empty())
      return Error{file + ": " + error};
    return problem;
  } catch (const json::exception &error) {
    return Error{file + ": " + error.what()};
  }
}

} // namespace dtc::plan
