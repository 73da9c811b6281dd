// Whole runs of artifacts with several roles, and of states that are divided otherwise than their
// parameters. It is the same training as in RunTest, against the same plain loops.
#include "ProgramBuilder.h"
#include "SmallTraining.h"

#include "dtc-rt/Files/ArrayFile.h"
#include "dtc-rt/Run.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

using Floats = std::vector<float>;
using fbs::BindingKind;
using fbs::MessageKind;
using fbs::QueueKind;
using fbs::Scope;

constexpr uint64_t kArena = 1 << 20, kScratch = 1 << 12;
constexpr int64_t kSteps = 5;

Json manifestOf(const std::vector<std::vector<int>> &roles) {
  Json manifest = manifestOfRoles(roles);
  manifest["global_batch"] = 4;
  manifest["code"] = {"code/kernels.so"};
  manifest["parameters"].push_back({{"name", "w"}, {"aliases", Json::array()}, {"dtype", "F32"},
                                    {"shape", {6}}, {"view", {3, 2}}, {"trainable", true},
                                    {"storage_dtype", "F32"}, {"init", nullptr}});
  manifest["inputs"] = {{{"name", "x"}, {"dtype", "F32"}, {"shape", {4, 3}}, {"limit", nullptr}},
                        {{"name", "target"}, {"dtype", "F32"}, {"shape", {4, 2}},
                         {"limit", nullptr}}};
  manifest["weights"]["tensors"]["w"] = {{"file", nullptr}, {"offset", 0}, {"size", 24},
                                         {"dtype", "F32"}, {"shape", {6}}, {"sha256", nullptr}};
  return manifest;
}

fbs::MatmulT matmulOf(std::unique_ptr<fbs::TensorT> a, std::unique_ptr<fbs::TensorT> b,
                      std::unique_ptr<fbs::TensorT> c) {
  fbs::MatmulT op;
  op.a = std::move(a);
  op.b = std::move(b);
  op.c = std::move(c);
  op.scratch = std::make_unique<fbs::Ref>(stepRef(kScratch));
  op.scratch_bytes = kArena - kScratch;
  return op;
}

void bindRate(fbs::ProgramT &program, uint64_t offset) {
  program.bindings.push_back(bindingOf(BindingKind::LearningRate, "", offset, {}, {}));
  program.bindings.back()->dtype = fbs::DType::F64;
}

/// Trains and compares losses and the saved weight.
void expectTrains(const Json &manifest, const std::vector<const fbs::ProgramT *> &programs) {
  std::map<std::string, std::string> members = {{"code/kernels.so", readFile(DTC_TEST_KERNELS)},
                                                {"weights.safetensors", bytesOf(kWeight)}};
  for (size_t role = 0; role < programs.size(); ++role)
    members["program/" + std::to_string(role) + ".bin"] = serialized(*programs[role]);
  TemporaryFolder folder;
  writeFile(folder / "model.dtc", artifactOf(manifest, members));
  writeFile(
      folder / "data.safetensors",
      safetensorsOf(
          {{"x", {{"dtype", "F32"}, {"shape", {kSamples, 3}}, {"data_offsets", {0, 72}}}},
           {"target", {{"dtype", "F32"}, {"shape", {kSamples, 2}}, {"data_offsets", {72, 120}}}}},
          bytesOf(sampleValues(18, 1)) + bytesOf(sampleValues(12, 0.5f))));
  RunOptions options;
  options.artifact = folder / "model.dtc";
  options.data = folder / "data.safetensors";
  options.log = folder / "log.jsonl";
  options.saveWeights = folder / "weights.safetensors";
  options.shuffle = false;
  options.steps = kSteps;
  Status status = run(options);
  ASSERT_TRUE(status.isOk()) << status.message();
  std::vector<double> weight, losses = expectedLosses(kSteps, weight), found;
  std::istringstream log(readFile(options.log));
  for (std::string line; std::getline(log, line);)
    found.push_back(Json::parse(line)["loss"].get<double>());
  ASSERT_EQ(found.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(found[i], losses[i], 1e-6 * losses[i]) << i;
  Result<ArrayFile> saved = ArrayFile::open(options.saveWeights);
  ASSERT_TRUE(saved) << saved.status().message();
  for (int i = 0; i < 6; ++i) {
    float value;
    std::memcpy(&value, saved->arrays.at("w").data + 4 * i, 4);
    EXPECT_NEAR(value, weight[i], 1e-6) << i;
  }
}

/// A pipeline of two ranks: the first multiplies and updates, the second has the target
/// and the loss. Rank 0 logs a loss that it never sees.
namespace pipeline {

enum : uint64_t { X = 0, W = 64, Y = 128, DY = 192, DW = 256, Rate = 320, Target = 384, Loss = 448 };

fbs::ProgramT first() {
  ProgramBuilder builder(1, kArena);
  uint32_t sgd = builder.kernel("sgd"), peers = builder.peers({1});
  uint32_t sends = builder.queue("send", QueueKind::Send);
  uint32_t receives = builder.queue("receive", QueueKind::Receive);
  uint32_t ready = builder.token(Scope::Step), back = builder.token(Scope::Step);
  uint32_t step = builder.function("step");
  builder.add(matmulOf(tensorAt(X, {4, 3}), tensorAt(W, {3, 2}), tensorAt(Y, {4, 2})),
              {0, {}, {ready}});
  builder.message(MessageKind::Receive, peers, stepRef(DY), 32, {receives, {}, {back}}, "dy");
  builder.message(MessageKind::Send, peers, stepRef(Y), 32, {sends, {ready}, {}}, "y");
  builder.add(matmulOf(tensorAt(X, {3, 4}, {1, 3}), tensorAt(DY, {4, 2}), tensorAt(DW, {3, 2})),
              {0, {back}, {}});
  builder.launch(sgd, {stepRef(Rate), stepRef(DW), stepRef(W)}, 6);
  builder.call(step);
  auto &bindings = builder.program.bindings;
  bindings.push_back(bindingOf(BindingKind::Parameter, "w", W, {3, 2}, {3, 2}));
  bindings.push_back(bindingOf(BindingKind::Input, "x", X, {4, 3}, {4, 3}));
  bindRate(builder.program, Rate);
  return std::move(builder.program);
}

fbs::ProgramT last() {
  ProgramBuilder builder(1, kArena);
  uint32_t mse = builder.kernel("mse"), peers = builder.peers({0});
  uint32_t sends = builder.queue("send", QueueKind::Send);
  uint32_t receives = builder.queue("receive", QueueKind::Receive);
  uint32_t came = builder.token(Scope::Step), ready = builder.token(Scope::Step);
  uint32_t step = builder.function("step");
  builder.message(MessageKind::Receive, peers, stepRef(Y), 32, {receives, {}, {came}}, "y");
  builder.launch(mse, {stepRef(Y), stepRef(Target), stepRef(Loss), stepRef(DY)}, 8,
                 {0, {came}, {ready}});
  builder.message(MessageKind::Send, peers, stepRef(DY), 32, {sends, {ready}, {}}, "dy");
  builder.call(step);
  auto &bindings = builder.program.bindings;
  bindings.push_back(bindingOf(BindingKind::Target, "target", Target, {4, 2}, {4, 2}));
  bindings.push_back(bindingOf(BindingKind::Loss, "", Loss, {}, {}));
  return std::move(builder.program);
}

} // namespace pipeline

/// Data parallelism on two ranks whose masters lie flat in a bucket of 4 + 4 elements, the weight
/// from the second on. Rank 0 has one element of padding, rank 1 another.
namespace sharded {

enum : uint64_t { X = 0, W = 64, Y = 128, DY = 192, DW = 256, Rate = 320, Target = 384, Loss = 448,
                  Master = 512, Reduced = 576 };

fbs::ProgramT program() {
  ProgramBuilder builder(2, kArena);
  uint32_t sgd = builder.kernel("sgd"), mse = builder.kernel("mse");
  uint32_t reduces = builder.queue("reduce", QueueKind::Collective);
  uint32_t ready = builder.token(Scope::Step), reduced = builder.token(Scope::Step);
  uint32_t updated = builder.token(Scope::Step), gathered = builder.token(Scope::Step);
  uint32_t group = builder.group({{0, 1}}), step = builder.function("step");
  using fbs::CollectiveKind;
  builder.add(matmulOf(tensorAt(X, {2, 3}), tensorAt(W + 4, {3, 2}), tensorAt(Y, {2, 2})));
  builder.launch(mse, {stepRef(Y), stepRef(Target), stepRef(Loss), stepRef(DY)}, 4);
  builder.add(matmulOf(tensorAt(X, {3, 2}, {1, 3}), tensorAt(DY, {2, 2}),
                       tensorAt(DW + 4, {3, 2})), {0, {}, {ready}});
  builder.collective(CollectiveKind::AllReduce, group, stepRef(Loss), stepRef(Loss), {}, -1,
                     {reduces, {ready}, {}});
  builder.collective(CollectiveKind::ReduceScatter, group, stepRef(DW), stepRef(Reduced), {8}, 0,
                     {reduces, {}, {reduced}});
  builder.launch(sgd, {stepRef(Rate), stepRef(Reduced), stepRef(Master)}, 4,
                 {0, {reduced}, {updated}});
  builder.collective(CollectiveKind::AllGather, group, stepRef(Master), stepRef(W), {4}, 0,
                     {reduces, {updated}, {gathered}});
  builder.call(step);
  auto &bindings = builder.program.bindings;
  bindings.push_back(bindingOf(BindingKind::Parameter, "w", W + 4, {3, 2}, {3, 2}));
  auto master = bindingOf(BindingKind::Master, "w", Master, {3, 2}, {4});
  master->placement->flat_axes = {0};
  master->placement->bucket_offset = 1;
  master->placement->bucket_elements = 8;
  bindings.push_back(std::move(master));
  bindings.push_back(bindingOf(BindingKind::Input, "x", X, {4, 3}, {2, 3}, {{0}}));
  bindings.push_back(bindingOf(BindingKind::Target, "target", Target, {4, 2}, {2, 2}, {{0}}));
  bindings.push_back(bindingOf(BindingKind::Loss, "", Loss, {}, {}));
  bindRate(builder.program, Rate);
  return std::move(builder.program);
}

} // namespace sharded

} // namespace

TEST(RolesRun, APipelineTrainsLikePlainLoops) {
  fbs::ProgramT first = pipeline::first(), last = pipeline::last();
  expectTrains(manifestOf({{0}, {1}}), {&first, &last});
  // The other way round: rank 0 has the loss.
  for (fbs::ProgramT *program : {&first, &last})
    program->peers[0]->ranks[0] = 1 - program->peers[0]->ranks[0];
  expectTrains(manifestOf({{1}, {0}}), {&first, &last});
}

TEST(RolesRun, MastersInABucketTrainLikePlainLoops) {
  fbs::ProgramT program = sharded::program();
  expectTrains(manifestOf({{0, 1}}), {&program});
}
