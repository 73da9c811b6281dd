// Programs of several roles that exchange messages, on queues of their own.
#include "ProgramBuilder.h"
#include "RunProgram.h"

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;
using namespace std::chrono_literals;

namespace {

using Floats = std::vector<float>;
using fbs::MessageKind;
using fbs::QueueKind;
using fbs::Scope;

constexpr uint64_t kBytes = 16, kCount = 4, kStride = 64; // of every tensor here
constexpr uint64_t kInput = 0, kWeight = 1024, kKept = 2048, kOutbox = 3072, kInbox = 4096,
                   kSum = 5120, kTotal = 6144, kArena = 8192;

fbs::Ref in(Scope scope, uint64_t offset) { return scopeRef(scope, offset, kStride); }

/// A stage with what it needs to send and receive.
struct Stage {
  ProgramBuilder builder{2, kArena};
  uint32_t add = builder.kernel("add");
  uint32_t sends = builder.queue("send", QueueKind::Send);
  uint32_t receives = builder.queue("receive", QueueKind::Receive);
  uint32_t reduces = builder.queue("reduce", QueueKind::Collective);
  // Tokens: the outbox is full, was sent; the inbox is full, was read.
  uint32_t outFull = builder.token(Scope::Outbox), outSent = builder.token(Scope::Outbox);
  uint32_t inFull = builder.token(Scope::Inbox), inRead = builder.token(Scope::Inbox);
  uint32_t summed = builder.token(Scope::Step), reduced = builder.token(Scope::Step);

  uint32_t addSend(uint32_t peers, uint64_t bytes = kBytes) {
    uint32_t function = builder.function("send");
    builder.message(MessageKind::Send, peers, in(Scope::Outbox, kOutbox), bytes,
                    {sends, {outFull}, {outSent}}, "stage.send");
    return function;
  }
  uint32_t addReceive(uint32_t peers, uint64_t bytes = kBytes) {
    uint32_t function = builder.function("receive");
    builder.message(MessageKind::Receive, peers, in(Scope::Inbox, kInbox), bytes,
                    {receives, {inRead}, {inFull}}, "stage.receive");
    return function;
  }
  /// The sum over all ranks of both roles.
  uint32_t addTotal() {
    uint32_t everyone = builder.group({{0, 1, 2, 3}}), function = builder.function("total");
    builder.copy(stepRef(kSum), stepRef(kTotal), kBytes, {0, {}, {summed}});
    builder.collective(fbs::CollectiveKind::AllReduce, everyone, stepRef(kTotal), stepRef(kTotal),
                       {4}, -1, {reduces, {summed}, {reduced}});
    builder.copy(stepRef(kTotal), stepRef(kTotal), kBytes, {0, {reduced}, {}});
    return function;
  }
};

/// forward: kept = input + weight, sent; backward: sum += what comes back + kept.
fbs::ProgramT firstStage(std::vector<int> next) {
  Stage stage;
  ProgramBuilder &builder = stage.builder;
  builder.program.num_microbatches = 3;
  uint32_t peers = builder.peers(std::move(next));
  fbs::Ref kept = in(Scope::Slot, kKept), sum = stepRef(kSum);
  uint32_t forward = builder.function("forward");
  builder.launch(stage.add, {in(Scope::Microbatch, kInput), stepRef(kWeight), kept}, kCount);
  builder.copy(kept, in(Scope::Outbox, kOutbox), kBytes, {0, {stage.outSent}, {stage.outFull}});
  uint32_t send = stage.addSend(peers), receive = stage.addReceive(peers);
  uint32_t backward = builder.function("backward");
  builder.launch(stage.add, {sum, in(Scope::Inbox, kInbox), sum}, kCount,
                 {0, {stage.inFull}, {stage.inRead}});
  builder.launch(stage.add, {sum, kept, sum}, kCount);
  uint32_t total = stage.addTotal();
  auto forwardOf = [&](uint32_t microbatch) { // two slots, two places in the outbox
    builder.call(forward, microbatch, microbatch % 2, 0, microbatch % 2);
    builder.call(send, microbatch, 0, 0, microbatch % 2);
    builder.call(receive, microbatch, 0, microbatch % 2);
  };
  auto backwardOf = [&](uint32_t microbatch) {
    builder.call(backward, microbatch, microbatch % 2, microbatch % 2);
  };
  forwardOf(0);
  forwardOf(1);
  backwardOf(0);
  forwardOf(2);
  backwardOf(1);
  backwardOf(2);
  builder.call(total);
  return std::move(builder.program);
}

/// step: sum += what came; sends what came + weight back.
fbs::ProgramT lastStage(std::vector<int> previous, uint64_t receivedBytes = kBytes) {
  Stage stage;
  ProgramBuilder &builder = stage.builder;
  builder.program.num_microbatches = 3;
  uint32_t peers = builder.peers(std::move(previous));
  uint32_t receive = stage.addReceive(peers, receivedBytes), send = stage.addSend(peers);
  uint32_t step = builder.function("step");
  fbs::Ref inbox = in(Scope::Inbox, kInbox);
  builder.launch(stage.add, {stepRef(kSum), inbox, stepRef(kSum)}, kCount, {0, {stage.inFull}, {}});
  builder.launch(stage.add, {inbox, stepRef(kWeight), in(Scope::Outbox, kOutbox)}, kCount,
                 {0, {stage.outSent}, {stage.outFull, stage.inRead}});
  uint32_t total = stage.addTotal();
  for (uint32_t microbatch : {0, 1}) // ahead of what is computed
    builder.call(receive, microbatch, 0, microbatch);
  for (uint32_t microbatch : {0, 1, 2}) {
    builder.call(step, microbatch, 0, microbatch % 2, 0);
    builder.call(send, microbatch, 0, 0, 0);
    if (microbatch == 0)
      builder.call(receive, 2, 0, 0);
  }
  builder.call(total);
  return std::move(builder.program);
}

// Positions in a role are not in the order of ranks: rank 0 with 2, rank 3 with 1.
const std::vector<std::vector<int>> kRoles = {{0, 3}, {2, 1}};

Json manifestOfStages() {
  Json manifest = manifestOfRoles(kRoles);
  manifest["global_batch"] = 3;
  return manifest;
}

float inputOf(int rank, int microbatch) { return float(rank == 0 ? 1 : 2) * float(1 + microbatch); }

void fillStages(int rank, char *arena) {
  bool first = rank == 0 || rank == 3;
  putFloats(arena, kWeight, Floats(kCount, first ? 10 : 100));
  for (int microbatch = 0; first && microbatch < 3; ++microbatch)
    putFloats(arena, kInput + kStride * microbatch, Floats(kCount, inputOf(rank, microbatch)));
}

} // namespace

TEST(Roles, TwoStagesExchangeThreeMicrobatches) {
  fbs::ProgramT first = firstStage({2, 1}), last = lastStage({0, 3});
  constexpr int kSteps = 3;
  Floats expected(4), total(1);
  for (auto [sender, receiver] : {std::pair(0, 2), {3, 1}})
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      float kept = inputOf(sender, microbatch) + 10;
      expected[sender] += kSteps * (kept + 100 + kept);
      expected[receiver] += kSteps * kept;
    }
  for (float value : expected)
    total[0] += value;
  for (int repetition = 0; repetition < 20; ++repetition) {
    Status status = runRoles(
        {&first, &last}, manifestOfStages(), fillStages,
        [&](int rank, const char *arena) {
          EXPECT_EQ(getFloats(arena, kSum, kCount), Floats(kCount, expected[rank])) << rank;
          EXPECT_EQ(getFloats(arena, kTotal, kCount), Floats(kCount, total[0])) << rank;
        },
        {readFile(DTC_TEST_KERNELS), 20s, kSteps});
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Roles, MessagesOfDifferentSizesAreAnError) {
  fbs::ProgramT first = firstStage({2, 1}), last = lastStage({0, 3}, kBytes / 2);
  Status status = runRoles({&first, &last}, manifestOfStages(), fillStages,
                           [](int, const char *) {}, {readFile(DTC_TEST_KERNELS)});
  EXPECT_EQ(status.category(), ErrorCategory::Failed);
  for (const char *part : {"sends 16 bytes at stage.send", "at stage.receive", "has 8 bytes"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(Roles, AMessageThatIsNotSentEndsInTimeWithRanks) {
  // The first stage sends nothing for the last microbatch.
  fbs::ProgramT first = firstStage({2, 1}), last = lastStage({0, 3});
  auto isLastSend = [](const fbs::Call &call) { return call.function() == 1 && call.microbatch() == 2; };
  std::erase_if(first.schedule, isLastSend);
  auto start = std::chrono::steady_clock::now();
  Status status = runRoles({&first, &last}, manifestOfStages(), fillStages,
                           [](int, const char *) {}, {readFile(DTC_TEST_KERNELS), 300ms});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1min);
  EXPECT_EQ(status.category(), ErrorCategory::RankLost);
  EXPECT_NE(status.message().find("s in receive at stage.receive for rank: "), std::string::npos)
      << status.message();
}

TEST(Roles, ARankMayTakeNoPart) {
  // Rank 0 sends to rank 1 alone; rank 2 neither sends nor receives.
  Json manifest = manifestOfRoles({{0, 1, 2}});
  ProgramBuilder builder(3, kArena);
  uint32_t sends = builder.queue("send", QueueKind::Send);
  uint32_t receives = builder.queue("receive", QueueKind::Receive);
  uint32_t full = builder.token(Scope::Step);
  uint32_t to = builder.peers({1, -1, -1}), from = builder.peers({-1, 0, -1});
  uint32_t function = builder.function("step");
  builder.message(MessageKind::Send, to, stepRef(kOutbox), kBytes, {sends, {}, {}}, "send");
  builder.message(MessageKind::Receive, from, stepRef(kInbox), kBytes, {receives, {}, {full}},
                  "receive");
  builder.copy(stepRef(kInbox), stepRef(kSum), kBytes, {0, {full}, {}});
  builder.call(function);
  auto fill = [](int rank, char *arena) { putFloats(arena, kOutbox, Floats(kCount, rank + 5)); };
  Status status = runRoles({&builder.program}, manifest, fill, [](int rank, const char *arena) {
    EXPECT_EQ(getFloats(arena, kSum, 1)[0], rank == 1 ? 5 : 0);
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Roles, ValuesRestInTheHostsArena) {
  // What is kept goes to the host and comes back, while something else takes its place.
  Json manifest = manifestOfRoles({{0}});
  manifest["global_batch"] = 2;
  ProgramBuilder builder(1, kArena);
  builder.program.host_arena_bytes = 1024;
  builder.program.num_microbatches = 2;
  uint32_t copies = builder.queue("copy", QueueKind::Copy), add = builder.kernel("add");
  uint32_t kept = builder.token(Scope::Step), away = builder.token(Scope::Step);
  uint32_t back = builder.token(Scope::Slot);
  fbs::Ref device = stepRef(kKept);
  fbs::Ref host(0, kStride, Scope::Slot, fbs::Space::Host);
  uint32_t forward = builder.function("forward");
  builder.launch(add, {in(Scope::Microbatch, kInput), stepRef(kWeight), device}, kCount,
                 {0, {away}, {kept}});
  builder.copy(device, host, kBytes, {copies, {kept}, {away}});
  uint32_t backward = builder.function("backward");
  builder.copy(host, in(Scope::Slot, kInbox), kBytes, {copies, {}, {back}});
  builder.launch(add, {stepRef(kSum), in(Scope::Slot, kInbox), stepRef(kSum)}, kCount,
                 {0, {back}, {}});
  for (uint32_t microbatch : {0, 1})
    builder.call(forward, microbatch, microbatch);
  for (uint32_t microbatch : {1, 0})
    builder.call(backward, microbatch, microbatch);
  auto fill = [](int, char *arena) {
    putFloats(arena, kWeight, Floats(kCount, 1));
    putFloats(arena, kInput, Floats(kCount, 10));
    putFloats(arena, kInput + kStride, Floats(kCount, 100));
  };
  Status status = runRoles({&builder.program}, manifest, fill, [](int, const char *arena) {
    EXPECT_EQ(getFloats(arena, kSum, kCount), Floats(kCount, 112));
    EXPECT_EQ(getFloats(arena, kInbox + kStride, 1)[0], 101);
  }, {readFile(DTC_TEST_KERNELS)});
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Roles, AKernelThatIsMissingIsNamedWithItsFunction) {
  fbs::ProgramT first = firstStage({2, 1}), last = lastStage({0, 3});
  last.kernels[0] = "no_such_kernel";
  Status status = runRoles({&first, &last}, manifestOfStages(), fillStages,
                           [](int, const char *) {}, {readFile(DTC_TEST_KERNELS)});
  EXPECT_EQ(status.category(), ErrorCategory::InputRefused);
  EXPECT_NE(status.message().find("step: op: the code object lacks the kernel: no_such_kernel"),
            std::string::npos) << status.message();
}
