// Whole runs of a hand-made artifact on two ranks that share the batch, against the same in plain
// loops. It has y = x w, mean squared error and SGD.
#include "RecordedPulses.h"
#include "Session.h"
#include "SmallTraining.h"
#include "TestArtifact.h"
#include "TestGpu.h"

#include "dtc-rt/Files/ArrayFile.h"
#include "dtc-rt/Run.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"
#include "dtc-rt/Trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <sstream>
#include <thread>
#include <unistd.h>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

// Arena of a rank: 2 of the 4 samples, x 2x3, w 3x2, y 2x2.
enum Place : uint64_t { X = 0, W = 64, Y = 128, Target = 192, Loss = 256, DY = 320, DW = 384,
                        Rate = 448, Scratch = 512, Bytes = 1 << 20 };

Json manifestOf() {
  Json manifest = emptyManifest({{"dp", 2}});
  manifest["global_batch"] = 4;
  manifest["code"] = {"code/kernels.so"};
  manifest["parameters"].push_back({{"name", "w"}, {"aliases", {"tied"}}, {"dtype", "F32"},
                                    {"shape", {6}}, {"view", {3, 2}}, {"trainable", true},
                                    {"storage_dtype", "F32"}, {"init", nullptr}});
  manifest["inputs"] = {{{"name", "x"}, {"dtype", "F32"}, {"shape", {4, 3}}, {"limit", nullptr}},
                        {{"name", "target"}, {"dtype", "F32"}, {"shape", {4, 2}}, {"limit", nullptr}}};
  manifest["weights"]["tensors"]["w"] = {{"file", nullptr}, {"offset", 0}, {"size", 24},
                                         {"dtype", "F32"}, {"shape", {6}}, {"sha256", nullptr}};
  return manifest;
}

fbs::LaunchT launchOf(uint32_t kernel, std::vector<fbs::Ref> args, uint64_t extent) {
  fbs::LaunchT op;
  op.kernel = kernel;
  op.args = std::move(args);
  op.extent = extent;
  op.grain = 1;
  return op;
}

fbs::MatmulT matmulOf(std::unique_ptr<fbs::TensorT> a, std::unique_ptr<fbs::TensorT> b,
                      std::unique_ptr<fbs::TensorT> c) {
  fbs::MatmulT op;
  op.a = std::move(a);
  op.b = std::move(b);
  op.c = std::move(c);
  op.scratch = std::make_unique<fbs::Ref>(stepRef(Scratch));
  op.scratch_bytes = Bytes - Scratch;
  return op;
}

fbs::ProgramT programOf(const Json &manifest) {
  fbs::ProgramT program = emptyProgram(manifest, Bytes);
  program.kernels = {"mse", "sgd"};
  addInstruction(program, matmulOf(tensorAt(X, {2, 3}), tensorAt(W, {3, 2}), tensorAt(Y, {2, 2})));
  addInstruction(program,
                 launchOf(0, {stepRef(Y), stepRef(Target), stepRef(Loss), stepRef(DY)}, 4));
  addInstruction(program, matmulOf(tensorAt(X, {3, 2}, {1, 3}), tensorAt(DY, {2, 2}),
                                   tensorAt(DW, {3, 2})));
  fbs::CollectiveT reduce;
  reduce.kind = fbs::CollectiveKind::AllReduce;
  reduce.group = 0;
  for (auto [offset, shape] : {std::pair<uint64_t, Dims>(Loss, {}), {DW, {3, 2}}}) {
    auto operand = std::make_unique<fbs::CollectiveOperandT>();
    operand->source = std::make_unique<fbs::Ref>(stepRef(offset));
    operand->target = std::make_unique<fbs::Ref>(stepRef(offset));
    operand->shape = shape;
    reduce.operands.push_back(std::move(operand));
  }
  addInstruction(program, std::move(reduce));
  addInstruction(program, launchOf(1, {stepRef(Rate), stepRef(DW), stepRef(W)}, 6));
  using fbs::BindingKind;
  program.bindings.push_back(bindingOf(BindingKind::Parameter, "w", W, {3, 2}, {3, 2}));
  program.bindings.push_back(bindingOf(BindingKind::Input, "x", X, {4, 3}, {2, 3}, {{0}}));
  program.bindings.push_back(
      bindingOf(BindingKind::Target, "target", Target, {4, 2}, {2, 2}, {{0}}));
  program.bindings.push_back(bindingOf(BindingKind::LearningRate, "", Rate, {}, {}));
  program.bindings.back()->dtype = fbs::DType::F64;
  program.bindings.push_back(bindingOf(BindingKind::Loss, "", Loss, {}, {}));
  return program;
}

std::string dataOf(float scale = 1) {
  return safetensorsOf(
      {{"x", {{"dtype", "F32"}, {"shape", {kSamples, 3}}, {"data_offsets", {0, 72}}}},
       {"target", {{"dtype", "F32"}, {"shape", {kSamples, 2}}, {"data_offsets", {72, 120}}}}},
      bytesOf(sampleValues(18, scale)) + bytesOf(sampleValues(12, 0.5f)));
}

std::string artifact(const Json &manifest = manifestOf()) {
  return artifactOf(manifest, {{"program/0.bin", serialized(programOf(manifest))},
                               {"code/kernels.so", readFile(DTC_TEST_KERNELS)},
                               {"weights.safetensors", bytesOf(kWeight)}});
}

/// The same program for GPUs.
std::string artifactForGpus() {
  Json manifest = manifestOf();
  manifest["target"] = "cuda";
  manifest["code"] = {"code/kernels.ptx"};
  fbs::ProgramT program = programOf(manifest);
  for (auto &instruction : program.functions[0]->instructions)
    if (fbs::LaunchT *launch = instruction->op.AsLaunch())
      launch->geometry =
          std::make_unique<fbs::Geometry>(1, static_cast<uint32_t>(launch->extent), 0);
  return artifactOf(manifest,
                    {{"program/0.bin", serialized(program)},
                     {"code/kernels.ptx", readFile(DTC_TEST_DIR "/Unit/Runtime/TestKernels.ptx")},
                     {"weights.safetensors", bytesOf(kWeight)}});
}

struct Files {
  TemporaryFolder folder;
  RunOptions options;
  Files() {
    writeFile(folder / "model.dtc", artifact());
    writeFile(folder / "data.safetensors", dataOf());
    options.artifact = folder / "model.dtc";
    options.data = folder / "data.safetensors";
    options.log = folder / "log.jsonl";
    options.saveWeights = folder / "weights.safetensors";
    options.shuffle = false;
    options.steps = 5;
  }
};

std::vector<Json> logLines(const std::string &path) {
  std::vector<Json> lines;
  std::istringstream text(readFile(path));
  for (std::string line; std::getline(text, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

/// One seed gives the same bits every time, another one others.
void expectSeedDecides(RunOptions options) {
  ASSERT_TRUE(run(options).isOk());
  std::string first = readFile(options.saveWeights);
  ASSERT_TRUE(run(options).isOk());
  EXPECT_EQ(readFile(options.saveWeights), first);
  options.seed = 1;
  ASSERT_TRUE(run(options).isOk());
  EXPECT_NE(readFile(options.saveWeights), first);
}

void expectTrainsLikePlainLoops(const Files &files) {
  Status status = run(files.options);
  ASSERT_TRUE(status.isOk()) << status.message();
  std::vector<double> weight;
  std::vector<double> losses = expectedLosses(5, weight);
  std::vector<Json> lines = logLines(files.options.log);
  ASSERT_EQ(lines.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_NEAR(lines[i]["loss"].get<double>(), losses[i], 1e-6 * losses[i]) << i;
    EXPECT_EQ(lines[i]["lr"], 0.1);
    EXPECT_EQ(lines[i]["peak_memory_bytes"], static_cast<int64_t>(Bytes));
    EXPECT_TRUE(lines[i]["tokens_per_s"].is_null());
    EXPECT_TRUE(lines[i]["grad_norm"].is_null());
    EXPECT_GT(lines[i]["samples_per_s"], 0);
  }
  Result<ArrayFile> saved = ArrayFile::open(files.options.saveWeights);
  ASSERT_TRUE(saved) << saved.status().message();
  ASSERT_EQ(saved->arrays.size(), 2u);
  for (const char *name : {"w", "tied"}) {
    const Array &array = saved->arrays.at(name);
    EXPECT_EQ(array.shape, (Dims{6})); // the file's shape, not the view's
    for (int i = 0; i < 6; ++i) {
      float value;
      std::memcpy(&value, array.data + 4 * i, 4);
      EXPECT_NEAR(value, weight[i], 1e-6);
    }
  }
}

} // namespace

TEST(Run, TrainsLikePlainLoops) {
  Files files;
  expectTrainsLikePlainLoops(files);
}

TEST(Run, TrainsLikePlainLoopsOnGpus) {
  if (std::string why = whyNoGpus(2); !why.empty())
    GTEST_SKIP() << why;
  Files files;
  writeFile(files.options.artifact, artifactForGpus());
  expectTrainsLikePlainLoops(files);
}

TEST(Run, SameBitsEveryTime) {
  Files files;
  files.options.shuffle = true;
  files.options.seed = 3;
  expectSeedDecides(files.options);
}

TEST(Run, OneEpochByDefault) {
  Files files;
  files.options.steps.reset();
  ASSERT_TRUE(run(files.options).isOk());
  EXPECT_EQ(logLines(files.options.log).size(), 2u); // 6 samples in batches of 4
}

TEST(Run, NotFiniteSavesNothing) {
  Files files;
  writeFile(files.options.data, dataOf(1e30f));
  Status status = run(files.options);
  EXPECT_EQ(status.category(), ErrorCategory::NotFinite);
  EXPECT_NE(status.message().find("step 1: rank "), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("loss"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(files.options.saveWeights));
}

TEST(Run, InitialWeightsAreDrawnBySeed) {
  Json manifest = manifestOf();
  manifest["weights"]["tensors"] = Json::object();
  Files files;
  writeFile(files.options.artifact, artifact(manifest));
  Status status = run(files.options);
  EXPECT_EQ(status.category(), ErrorCategory::InputRefused);
  EXPECT_NE(status.message().find("no data for the weight: w"), std::string::npos);
  manifest["parameters"][0]["init"] = {{"mean", 1.0}, {"sd", 0.5}};
  writeFile(files.options.artifact, artifact(manifest));
  expectSeedDecides(files.options);
}

TEST(Run, WeightsBesideTheArtifact) {
  Files files;
  std::string content = "head" + bytesOf(kWeight);
  writeFile(files.folder / "w.bin", content);
  Json manifest = manifestOf();
  manifest["weights"]["files"] = {{{"path", "w.bin"}, {"size", content.size()},
                                   {"head_sha256", ""}}};
  manifest["weights"]["tensors"]["w"]["file"] = 0;
  manifest["weights"]["tensors"]["w"]["offset"] = 4;
  writeFile(files.options.artifact, artifact(manifest));
  Status status = run(files.options);
  EXPECT_EQ(status.category(), ErrorCategory::InputRefused);
  EXPECT_NE(status.message().find("w.bin: is not the file"), std::string::npos);
  manifest["weights"]["tensors"]["w"]["offset"] = 8; // one element too far
  writeFile(files.options.artifact, artifact(manifest));
  EXPECT_EQ(run(files.options).category(), ErrorCategory::InputRefused);
  writeFile(files.folder / "w.bin", content.substr(1));
  status = run(files.options);
  EXPECT_NE(status.message().find("size"), std::string::npos) << status.message();
  std::filesystem::remove(files.folder / "w.bin");
  EXPECT_EQ(run(files.options).category(), ErrorCategory::InputRefused);
}

TEST(Run, ModesAreChecked) {
  Files files;
  files.options.outputs = files.folder / "out.safetensors";
  EXPECT_EQ(run(files.options).category(), ErrorCategory::Usage);
  Json manifest = manifestOf();
  manifest["loss"] = "none";
  writeFile(files.options.artifact, artifact(manifest));
  files.options.outputs.clear();
  EXPECT_EQ(run(files.options).category(), ErrorCategory::Usage);
  manifest["target"] = "abacus";
  writeFile(files.options.artifact, artifact(manifest));
  EXPECT_EQ(run(files.options).category(), ErrorCategory::NoFit);
}

/// A model that keeps something from microbatch to microbatch, as running statistics are.
TEST(Run, EvaluationMayNotChangeWhatIsKept) {
  Files files;
  Json manifest = manifestOf();
  fbs::ProgramT program = programOf(manifest);
  program.functions[0]->per_microbatch = true;
  program.functions[0]->values = {fbs::Value(stepRef(Loss), 4), fbs::Value(stepRef(Rate), 8),
                                  fbs::Value(stepRef(W + 20), 4)};
  auto expectRefused = [&](const std::string &words) {
    writeFile(files.options.artifact,
              artifactOf(manifest, {{"program/0.bin", serialized(program)},
                                    {"code/kernels.so", readFile(DTC_TEST_KERNELS)},
                                    {"weights.safetensors", bytesOf(kWeight)}}));
    Status status = run(files.options);
    EXPECT_EQ(status.category(), ErrorCategory::Usage);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  files.options.evalData = files.options.data;
  program.functions[0]->instructions.back()->writes = {0, 1};
  expectRefused("has its loss before the update");
  program.functions[0]->instructions.back()->writes = {0, 2};
  expectRefused("would change what the model keeps from step to step: w");
}

TEST(Run, OutputsOfAllSamples) {
  // Inference: y = x w, of 6 samples in batches of 4; the last batch is ragged.
  Json manifest = manifestOf();
  manifest["loss"] = "none";
  manifest["inputs"].erase(1);
  manifest["outputs"].push_back({{"name", "y"}, {"dtype", "F32"}, {"shape", {4, 2}}});
  fbs::ProgramT program = emptyProgram(manifest, Bytes);
  addInstruction(program, matmulOf(tensorAt(X, {2, 3}), tensorAt(W, {3, 2}), tensorAt(Y, {2, 2})));
  using fbs::BindingKind;
  program.bindings.push_back(bindingOf(BindingKind::Parameter, "w", W, {3, 2}, {3, 2}));
  program.bindings.push_back(bindingOf(BindingKind::Input, "x", X, {4, 3}, {2, 3}, {{0}}));
  program.bindings.push_back(bindingOf(BindingKind::Output, "y", Y, {4, 2}, {2, 2}, {{0}}));
  manifest["code"] = Json::array();
  Files files;
  writeFile(files.options.artifact,
            artifactOf(manifest, {{"program/0.bin", serialized(program)},
                                  {"weights.safetensors", bytesOf(kWeight)}}));
  writeFile(files.options.data,
            safetensorsOf({{"x", {{"dtype", "F32"}, {"shape", {kSamples, 3}},
                                  {"data_offsets", {0, 72}}}}}, bytesOf(sampleValues(18, 1))));
  files.options.steps.reset();
  files.options.saveWeights.clear();
  files.options.outputs = files.folder / "out.safetensors";
  Status status = run(files.options);
  ASSERT_TRUE(status.isOk()) << status.message();
  Result<ArrayFile> file = ArrayFile::open(files.options.outputs);
  ASSERT_TRUE(file);
  const Array &y = file->arrays.at("y");
  ASSERT_EQ(y.shape, (Dims{kSamples, 2}));
  auto x = sampleValues(18, 1);
  for (int64_t i = 0; i < kSamples; ++i)
    for (int64_t n = 0; n < 2; ++n) {
      float value, sum = 0;
      std::memcpy(&value, y.data + (i * 2 + n) * 4, 4);
      for (int64_t k = 0; k < 3; ++k)
        sum += x[i * 3 + k] * kWeight[k * 2 + n];
      EXPECT_NEAR(value, sum, 1e-6);
    }
}

/// What rank 1 says of its steps in a run of three.
std::vector<int64_t> saidOfSteps(std::optional<double> timeoutSeconds) {
  Files files;
  files.options.log = files.options.saveWeights = "";
  files.options.timeoutSeconds = timeoutSeconds;
  auto session = openSession(files.options);
  if (!session)
    return {-1};
  (*session)->numSteps = 3;
  ThreadWorld world(2, std::chrono::seconds(20));
  RecordedPulses first(world.communicator(0)), second(world.communicator(1));
  RankWorker leader(**session, first, {}), worker(**session, second, {});
  std::thread other([&] { EXPECT_TRUE(leader.run().isOk()); });
  EXPECT_TRUE(worker.run().isOk());
  other.join();
  return second.steps;
}

TEST(Run, RanksTellTheirSteps) {
  // Samples are read for each step, which may take any time, and so may what is left at the end.
  EXPECT_EQ(saidOfSteps(std::nullopt), (std::vector<int64_t>{1, 0, 1, 2, 0, 2, 3, 0, 3, 4, 0}));
  EXPECT_EQ(saidOfSteps(20), std::vector<int64_t>()) << "the user's limit holds";
}

/// What it copied for a checkpoint is still being written, however long that takes. One of them
/// sees that the loss isn't finite, and the other one may see that first, or be ended by it.
TEST(Run, RanksThatFailAreInNoStep) {
  Files files;
  writeFile(files.options.data, dataOf(std::numeric_limits<float>::infinity()));
  files.options.log = files.options.saveWeights = "";
  auto session = openSession(files.options);
  ASSERT_TRUE(session) << session.status().message();
  (*session)->numSteps = 3;
  ThreadWorld world(2, std::chrono::seconds(20));
  RecordedPulses first(world.communicator(0)), second(world.communicator(1));
  RankWorker leader(**session, first, {}), worker(**session, second, {});
  Status led = Status::ok();
  std::thread other([&] { led = leader.run(); });
  const Status worked = worker.run();
  other.join();
  EXPECT_TRUE(led.category() == ErrorCategory::NotFinite ||
              worked.category() == ErrorCategory::NotFinite);
  for (const Status &one : {led, worked})
    EXPECT_TRUE(one.category() == ErrorCategory::NotFinite ||
                one.category() == ErrorCategory::RankLost)
        << one.message();
  for (const RecordedPulses *rank : {&first, &second}) {
    ASSERT_FALSE(rank->steps.empty());
    EXPECT_EQ(rank->steps.back(), 0);
  }
}

class StopsOn : public testing::TestWithParam<int> {};

TEST_P(StopsOn, Signal) {
  Files files;
  files.options.steps = 100000000;
  std::thread sender([&] {
    while (readFile(files.options.log).empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ::kill(::getpid(), GetParam());
  });
  Status status = run(files.options);
  sender.join();
  EXPECT_EQ(status.category(), ErrorCategory::Saved);
  EXPECT_TRUE(std::filesystem::exists(files.options.saveWeights));
}

INSTANTIATE_TEST_SUITE_P(Run, StopsOn, testing::Values(SIGTERM, SIGUSR1));

/// In its first step, rank 1 hangs.
void writeHangingArtifact(const Files &files) {
  Json manifest = manifestOf();
  fbs::ProgramT program = programOf(manifest);
  program.kernels.push_back("hang");
  auto &instructions = program.functions[0]->instructions;
  size_t before = instructions.size();
  fbs::GroupPositionT index;
  index.group = 0;
  index.target = std::make_unique<fbs::Ref>(stepRef(Rate + 8));
  addInstruction(program, std::move(index));
  addInstruction(program, launchOf(2, {stepRef(Rate + 8)}, 1));
  std::rotate(instructions.begin(), instructions.begin() + before, instructions.end());
  writeFile(files.options.artifact,
            artifactOf(manifest, {{"program/0.bin", serialized(program)},
                                  {"code/kernels.so", readFile(DTC_TEST_KERNELS)},
                                  {"weights.safetensors", bytesOf(kWeight)}}));
}

/// What hangs all the same fails the test.
void endInTwoMinutes() { ::alarm(120); }

/// The thread that hangs is left, so that the process must end.
[[noreturn]] void stepOnce(const Files &files) {
  endInTwoMinutes();
  auto trainer = Trainer::open(files.options.artifact, {});
  Status status = trainer ? (*trainer)->setData(files.options.data, false) : trainer.status();
  if (status.isOk())
    status = (*trainer)->step().status();
  std::fprintf(stderr, "step: %s\n", status.message().c_str());
  std::_Exit(status.category() == ErrorCategory::RankLost ? 5 : 1);
}

TEST(RunDeathTest, ARankThatDoesNothingInATrainersFirstStepIsFoundBeforeTheTimeLimit) {
  Files files;
  writeHangingArtifact(files);
  EXPECT_EXIT(stepOnce(files), testing::ExitedWithCode(5),
              "step: rank 0 waited 5 s in all_reduce at op for rank: 1");
}

TEST(RunDeathTest, HangingRankEndsTheRunWithExitCode5) {
  Files files;
  writeHangingArtifact(files);
  files.options.timeoutSeconds = 0.3;
  auto runInTime = [&] {
    endInTwoMinutes();
    (void)run(files.options);
  };
  EXPECT_EXIT(runInTime(), testing::ExitedWithCode(5),
              "error: rank 0 waited 0 s in all_reduce at op for rank: 1");
  std::vector<std::string> left; // of half-written weights and the empty log: nothing
  for (auto &entry : std::filesystem::directory_iterator(files.folder / "."))
    left.push_back(entry.path().filename());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"data.safetensors", "model.dtc"}));
}
