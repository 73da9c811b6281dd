#include "ProgramBuilder.h"
#include "RunProgram.h"

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

std::string kernels() { return readFile(DTC_TEST_KERNELS); }

fbs::LaunchT launchOf(uint32_t kernel, std::vector<fbs::Ref> args, uint64_t extent,
                      uint64_t grain) {
  fbs::LaunchT op;
  op.kernel = kernel;
  op.args = std::move(args);
  op.extent = extent;
  op.grain = grain;
  return op;
}

fbs::CollectiveT collectiveOf(fbs::CollectiveKind kind, uint32_t group, uint64_t source,
                              uint64_t target, Dims shape, int dim) {
  return floatCollective(kind, group, stepRef(source), stepRef(target), std::move(shape), dim);
}

void nothing(int, char *) {}

} // namespace

TEST(Executor, LaunchDoesEveryIterationOnce) {
  std::string code = kernels();
  for (int threads : {1, 2, 3})
    for (auto [extent, grain] : {std::pair(1000, 1), {1000, 16}, {7, 16}, {2, 1}, {1, 1}, {0, 4}}) {
      Json manifest = emptyManifest();
      manifest["threads_per_rank"] = threads;
      fbs::ProgramT program = emptyProgram(manifest, 8192);
      program.kernels = {"count"};
      auto &op = addInstruction(program, launchOf(0, {stepRef(0)}, extent, grain));
      op.scratch = std::make_unique<fbs::Ref>(stepRef(4096));
      op.scratch_per_thread = 64;
      Status status = runProgram(program, manifest, nothing, [&, extent = extent](int, const char *arena) {
        std::vector<float> done = getFloats(arena, 0, 1024);
        for (int i = 0; i < 1024; ++i)
          ASSERT_EQ(done[i], i < extent ? 1.0f : 0.0f) << i;
        int64_t total = 0;
        for (int thread = 0; thread < threads; ++thread) {
          int64_t count;
          std::memcpy(&count, arena + 4096 + 64 * thread, 8);
          total += count;
        }
        EXPECT_EQ(total, extent);
      }, code);
      EXPECT_TRUE(status.isOk()) << status.message();
    }
}

TEST(Executor, MissingKernelIsNamed) {
  Json manifest = emptyManifest();
  fbs::ProgramT program = emptyProgram(manifest, 64);
  program.kernels = {"no_such_kernel"};
  addInstruction(program, launchOf(0, {stepRef(0)}, 1, 1), "softmax.3");
  Status status = runProgram(program, manifest, nothing, [](int, const char *) {}, kernels());
  EXPECT_EQ(status.category(), ErrorCategory::InputRefused);
  EXPECT_NE(status.message().find("step: softmax.3: "), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("no_such_kernel"), std::string::npos);
}

TEST(Executor, MicrobatchesAndSlots) {
  // accumulate: sum += input of the microbatch; input and a kept copy per slot.
  Json manifest = emptyManifest();
  manifest["global_batch"] = 3;
  fbs::ProgramT program = emptyProgram(manifest, 4096);
  program.num_microbatches = 3;
  program.kernels = {"add"};
  program.schedule = {fbs::Call(0, 0, 0, 0, 0), fbs::Call(0, 1, 1, 0, 0), fbs::Call(0, 2, 0, 0, 0)};
  fbs::Ref input = scopeRef(fbs::Scope::Microbatch, 0, 64);
  fbs::Ref kept = scopeRef(fbs::Scope::Slot, 1024, 256);
  addInstruction(program, launchOf(0, {stepRef(512), input, stepRef(512)}, 4, 1));
  fbs::CopyT copy;
  copy.source = std::make_unique<fbs::Ref>(input);
  copy.target = std::make_unique<fbs::Ref>(kept);
  copy.bytes = 16;
  addInstruction(program, std::move(copy));
  auto fill = [](int, char *arena) {
    for (int m = 0; m < 3; ++m)
      putFloats(arena, 64 * m, std::vector<float>(4, m == 0 ? 1.0f : m == 1 ? 10.0f : 100.0f));
  };
  Status status = runProgram(program, manifest, fill, [](int, const char *arena) {
    EXPECT_EQ(getFloats(arena, 512, 4), std::vector<float>(4, 111));
    EXPECT_EQ(getFloats(arena, 1024, 4), std::vector<float>(4, 100)); // slot 0, twice
    EXPECT_EQ(getFloats(arena, 1024 + 256, 4), std::vector<float>(4, 10));
  }, kernels());
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Executor, EvaluationLeavesOutWhatOnlyTrainingNeeds) {
  // a -> b on another queue for training alone, then b -> c, which waits for it.
  ProgramBuilder builder(1, 256);
  uint32_t queue = builder.queue("copy", fbs::QueueKind::Copy);
  uint32_t copied = builder.token(fbs::Scope::Step);
  uint32_t forward = builder.function("forward");
  fbs::FunctionT &function = *builder.program.functions.back();
  function.per_microbatch = true;
  builder.copy(stepRef(0), stepRef(64), 4, {.queue = queue, .signals = {copied}});
  function.instructions.back()->training_only = true;
  builder.copy(stepRef(64), stepRef(128), 4, {.waits = {copied}});
  uint32_t update = builder.function("update");
  builder.copy(stepRef(0), stepRef(192), 4);
  builder.call(forward);
  builder.call(update);
  auto fill = [](int, char *arena) {
    for (int i = 0; i < 4; ++i)
      putFloats(arena, 64 * i, {1.0f + i});
  };
  using Floats = std::vector<float>;
  for (auto [part, expected] :
       {std::pair(StepPart::All, Floats{1, 1, 1, 1}), {StepPart::Evaluation, Floats{1, 2, 2, 4}}}) {
    Status status = runRoles({&builder.program}, emptyManifest(), fill,
                             [&, expected = expected](int, const char *arena) {
                               for (int i = 0; i < 4; ++i)
                                 EXPECT_EQ(getFloats(arena, 64 * i, 1)[0], expected[i]) << i;
                             },
                             {.part = part});
    EXPECT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Executor, ZeroAndGroupPosition) {
  Json manifest = emptyManifest({{"dp", 2}, {"tp", 2}});
  fbs::ProgramT program = emptyProgram(manifest, 256);
  fbs::ZeroT zero;
  zero.target = std::make_unique<fbs::Ref>(stepRef(4));
  zero.bytes = 8;
  addInstruction(program, std::move(zero));
  program.groups.push_back(groupOf({{0, 2, 1, 3}})); // tp is the major part
  for (auto [group, offset] : {std::pair(0, 64), {1, 72}, {2, 80}}) {
    fbs::GroupPositionT index;
    index.group = group;
    index.target = std::make_unique<fbs::Ref>(stepRef(offset));
    addInstruction(program, std::move(index));
  }
  auto fill = [](int, char *arena) { putFloats(arena, 0, {1, 2, 3, 4}); };
  Status status = runProgram(program, manifest, fill, [](int rank, const char *arena) {
    EXPECT_EQ(getFloats(arena, 0, 4), (std::vector<float>{1, 0, 0, 4}));
    int64_t index[3];
    std::memcpy(index, arena + 64, 24);
    EXPECT_EQ(index[0], rank / 2);
    EXPECT_EQ(index[1], rank % 2);
    EXPECT_EQ(index[2], rank % 2 * 2 + rank / 2);
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Executor, CollectivesOfAProgram) {
  Json manifest = emptyManifest({{"dp", 2}, {"tp", 2}});
  fbs::ProgramT program = emptyProgram(manifest, 1024);
  using fbs::CollectiveKind;
  addInstruction(program, collectiveOf(CollectiveKind::AllReduce, 0, 0, 64, {2}, -1));  // dp
  addInstruction(program, collectiveOf(CollectiveKind::AllGather, 1, 64, 128, {2}, 0)); // tp
  addInstruction(program, collectiveOf(CollectiveKind::Slice, 0, 128, 192, {4}, 0));    // dp
  addInstruction(program, collectiveOf(CollectiveKind::ReduceScatter, 1, 192, 256, {2}, 0));
  auto fill = [](int rank, char *arena) {
    putFloats(arena, 0, {static_cast<float>(rank), static_cast<float>(10 * rank)});
  };
  Status status = runProgram(program, manifest, fill, [](int rank, const char *arena) {
    float dp = static_cast<float>(rank / 2), tp = static_cast<float>(rank % 2);
    // Over dp: ranks {0, 2} and {1, 3}.
    EXPECT_EQ(getFloats(arena, 64, 2), (std::vector<float>{2 + 2 * tp, 20 + 20 * tp}));
    EXPECT_EQ(getFloats(arena, 128, 4), (std::vector<float>{2, 20, 4, 40}));
    std::vector<float> mine = dp == 0 ? std::vector<float>{2, 20} : std::vector<float>{4, 40};
    EXPECT_EQ(getFloats(arena, 192, 2), mine);
    EXPECT_EQ(getFloats(arena, 256, 1), (std::vector<float>{2 * mine[rank % 2]}));
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Executor, FailureOnOneRankEndsTheOthers) {
  // Two roles would be needed for a real mismatch; a group that disagrees on shapes does.
  Json manifest = emptyManifest({{"dp", 2}});
  fbs::ProgramT program = emptyProgram(manifest, 256);
  program.kernels = {"absent"};
  addInstruction(program, collectiveOf(fbs::CollectiveKind::AllReduce, 0, 0, 64, {2}, -1));
  addInstruction(program, launchOf(0, {}, 1, 1));
  auto start = std::chrono::steady_clock::now();
  Status status = runRoles({&program}, manifest, nothing, [](int, const char *) {},
                           {kernels(), std::chrono::hours(1)});
  EXPECT_EQ(status.category(), ErrorCategory::InputRefused);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}
