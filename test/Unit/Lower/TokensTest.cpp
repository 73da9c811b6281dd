// Programs of modules that start ops on queues: who waits for whom.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Lower/Program.h"
#include "dtc/Target/CPU/CpuTarget.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc;
namespace fbs = dtc::rt::fbs;

namespace {

using List = std::vector<uint32_t>;

class TokensTest : public testing::Test {
protected:
  TokensTest() {
    DialectRegistry registry;
    target::chooseTarget(registry, cpu::cpuTarget());
    context.appendDialectRegistry(registry);
    context.loadDialect<exec::ExecDialect, dist::DistDialect, func::FuncDialect,
                        arith::ArithDialect>();
  }

  void build(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    PassManager passes(&context);
    passes.addPass(lower::createPlanMemory());
    passes.addPass(lower::createVerifySchedule());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    auto built = lower::buildProgram(*module);
    ASSERT_TRUE(succeeded(built));
    program = std::move(built->program);
  }

  const fbs::InstructionT &at(size_t function, size_t instruction) {
    return *program->functions.at(function)->instructions.at(instruction);
  }

  MLIRContext context;
  std::unique_ptr<fbs::ProgramT> program;
};

/// A program that updates x on a mesh of these axes, and returns a state of so many elements.
std::string updating(const std::string &axes, int elements, const std::string &body) {
  const std::string state = "tensor<" + std::to_string(elements) + "xf32>";
  return "dist.mesh @mesh [" + axes + "]\n" + R"mlir(
func.func @update(%x: tensor<16xf32> {dtc.role = #dtc.role<parameter, "x">})
    -> (tensor<16xf32> {dtc.role = #dtc.role<parameter, "x">}, )mlir" +
         state + R"mlir( {dtc.role = #dtc.role<state, "x", exp_avg>})
    attributes {dtc.runs = #dtc.runs<step>} {)mlir" +
         body + "}\nexec.schedule microbatches 1 {\n  exec.call @update microbatch 0 slot 0\n}\n";
}

const std::string kTwoAxes = updating(R"("dp" = 2, "tp" = 2)", 8, R"mlir(
  %a = exec.copy %x : tensor<16xf32>
  %s = dist.reduce_scatter sum %a dim 0 on @mesh {"dp"} {exec.queue = #exec.queue<collective>} : tensor<16xf32> -> tensor<8xf32>
  %b = exec.copy %x : tensor<16xf32>
  %r = dist.all_reduce sum %b on @mesh {"tp"} {exec.queue = #exec.queue<collective>} : tensor<16xf32>
  %t = exec.wait %r : tensor<16xf32>
  %c = exec.copy %t : tensor<16xf32>
  %p = dist.all_reduce sum %s on @mesh {"tp"} {exec.queue = #exec.queue<collective>} : tensor<8xf32>
  %q = exec.wait %p : tensor<8xf32>
  return %c, %q : tensor<16xf32>, tensor<8xf32>
)mlir");

const std::string kReduced = updating(R"("dp" = 2)", 16, R"mlir(
  %a = exec.copy %x : tensor<16xf32>
  %s = dist.all_reduce sum %a on @mesh {"dp"} {exec.queue = #exec.queue<collective>} : tensor<16xf32>
  %b = exec.copy %x : tensor<16xf32>
  %t = exec.wait %s : tensor<16xf32>
  %c = exec.copy %t : tensor<16xf32>
  %r = dist.all_reduce sum %b on @mesh {"dp"} {exec.queue = #exec.queue<collective>} : tensor<16xf32>
  %u = exec.wait %r : tensor<16xf32>
  return %c, %u : tensor<16xf32>, tensor<16xf32>
)mlir");

/// Two microbatches over two places of each box; one function receives, computes or sends.
constexpr const char *kStage = R"mlir(
dist.mesh @mesh ["tp" = 1]
func.func @receive() -> (tensor<16xf32> {dtc.role = #dtc.role<inbox, "a">})
    attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
  %a = exec.receive from [0] channel 3 {exec.queue = #exec.queue<receive>} : tensor<16xf32>
  return %a : tensor<16xf32>
}
func.func @step(%a: tensor<16xf32> {dtc.role = #dtc.role<inbox, "a">})
    -> (tensor<16xf32> {dtc.role = #dtc.role<outbox, "b">})
    attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
  %in = exec.wait %a : tensor<16xf32>
  %x = exec.copy %in : tensor<16xf32>
  %y = exec.copy %x : tensor<16xf32>
  exec.send %y to [2] channel 0 {exec.queue = #exec.queue<send>} : tensor<16xf32>
  return %y : tensor<16xf32>
}
exec.schedule microbatches 2 {
  exec.call @receive microbatch 0 slot 0
  exec.call @receive microbatch 1 slot 0 inbox 1
  exec.call @step microbatch 0 slot 0
  exec.call @step microbatch 1 slot 0 inbox 1 outbox 1
}
)mlir";

} // namespace

TEST_F(TokensTest, WhatIsStartedFollowsWhatWasComputed) {
  build(kReduced);
  ASSERT_EQ(program->queues.size(), 2u);
  EXPECT_EQ(program->queues[1]->kind, fbs::QueueKind::Collective);
  EXPECT_EQ(program->queues[1]->name, "collective dp");
  // copy, all_reduce, copy, copy, all_reduce, and a join: nothing is computed after the last wait.
  ASSERT_EQ(program->functions[0]->instructions.size(), 6u);
  EXPECT_EQ(at(0, 0).queue, 0);
  EXPECT_EQ(at(0, 1).queue, 1);
  EXPECT_EQ(at(0, 0).signals, (List{0}));
  EXPECT_EQ(at(0, 1).waits, (List{0}));
  EXPECT_EQ(at(0, 1).signals, (List{1}));
  EXPECT_EQ(at(0, 2).waits, List{});
  EXPECT_EQ(at(0, 3).waits, (List{1})) << "behind the wait";
  EXPECT_EQ(at(0, 3).signals, (List{0}));
  EXPECT_EQ(at(0, 4).waits, (List{0}));
  EXPECT_EQ(at(0, 4).signals, (List{2}));
  EXPECT_EQ(at(0, 5).queue, 0);
  EXPECT_EQ(at(0, 5).waits, (List{2}));
  EXPECT_EQ(at(0, 5).signals, (List{0})) << "what the next call starts follows this call";
  EXPECT_EQ(program->tokens, (std::vector<fbs::Scope>(3, fbs::Scope::Step)));
}

TEST_F(TokensTest, CollectivesAlongOtherAxesDontWaitForOneAnother) {
  build(kTwoAxes);
  ASSERT_EQ(program->queues.size(), 3u);
  for (auto [i, name] : {std::pair(1, "collective dp"), std::pair(2, "collective tp")}) {
    EXPECT_EQ(program->queues[i]->kind, fbs::QueueKind::Collective);
    EXPECT_EQ(program->queues[i]->name, name);
  }
  // copy, reduce_scatter, copy, all_reduce, copy, all_reduce of the part, and a join
  EXPECT_EQ(at(0, 1).queue, 1);
  EXPECT_EQ(at(0, 1).signals, (List{1}));
  EXPECT_EQ(at(0, 3).queue, 2);
  EXPECT_EQ(at(0, 3).waits, (List{0})) << "for what was computed";
  EXPECT_EQ(at(0, 4).waits, (List{2}));
  EXPECT_EQ(at(0, 5).queue, 2);
  EXPECT_EQ(at(0, 5).waits, (List{0, 1})) << "for the part that it reads, too";
}

/// A mesh of 13 axes, and a sum along each of them.
static std::string manyAxes() {
  constexpr int count = 13;
  std::string axes, body;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), before = i == 0 ? "x" : "t" + std::to_string(i - 1);
    axes += (i ? ", " : "") + ("\"a" + n + "\" = 2");
    body += "%s" + n + " = dist.all_reduce sum %" + before + " on @mesh {\"a" + n +
            "\"} {exec.queue = #exec.queue<collective>} : tensor<16xf32>\n%t" + n +
            " = exec.wait %s" + n + " : tensor<16xf32>\n";
  }
  return "dist.mesh @mesh [" + axes +
         "]\nfunc.func @update(%x: tensor<16xf32> {dtc.role = #dtc.role<parameter, \"x\">}) -> "
         "(tensor<16xf32> {dtc.role = #dtc.role<parameter, \"x\">}) attributes {dtc.runs = "
         "#dtc.runs<step>} {\n" +
         body + "return %t" + std::to_string(count - 1) +
         " : tensor<16xf32>\n}\nexec.schedule microbatches 1 {\n  exec.call @update microbatch 0 "
         "slot 0\n}\n";
}

TEST_F(TokensTest, MoreAxesThanQueuesShareOne) {
  build(manyAxes().c_str());
  ASSERT_EQ(program->queues.size(), 12u);
  EXPECT_EQ(at(0, 10).queue, 11);
  EXPECT_EQ(at(0, 11).queue, 1);
  EXPECT_EQ(at(0, 12).queue, 1);
}

TEST_F(TokensTest, MessagesWaitForTheirPlaces) {
  build(kStage);
  using fbs::Scope;
  ASSERT_EQ(program->functions[0]->instructions.size(), 1u);
  const fbs::InstructionT &receive = at(0, 0), &read = at(1, 0), &write = at(1, 1),
                          &send = at(1, 2);
  const fbs::MessageT *message = receive.op.AsMessage();
  ASSERT_TRUE(message && send.op.AsMessage());
  EXPECT_EQ(message->kind, fbs::MessageKind::Receive);
  EXPECT_EQ(message->channel, 3u);
  EXPECT_EQ(program->peers.at(message->peers)->ranks, (std::vector<int32_t>{0}));
  EXPECT_EQ(program->peers.at(send.op.AsMessage()->peers)->ranks, (std::vector<int32_t>{2}));
  ASSERT_EQ(message->buffers.size(), 1u);
  EXPECT_EQ(message->buffers[0].ref().scope(), Scope::Inbox);
  EXPECT_EQ(message->buffers[0].ref().stride(), 64u);
  EXPECT_EQ(message->buffers[0].bytes(), 64u);
  // Each waits for the other: what came before it may be read, what was read overwritten.
  ASSERT_EQ(receive.signals.size(), 1u);
  ASSERT_EQ(receive.waits.size(), 1u);
  EXPECT_EQ(read.waits, receive.signals);
  EXPECT_EQ(read.signals, receive.waits);
  EXPECT_EQ(program->tokens.at(receive.signals[0]), Scope::Inbox);
  EXPECT_EQ(program->tokens.at(receive.waits[0]), Scope::Inbox);
  ASSERT_EQ(send.signals.size(), 1u);
  EXPECT_EQ(write.waits, send.signals);
  EXPECT_EQ(send.waits, write.signals);
  EXPECT_EQ(program->tokens.at(send.signals[0]), Scope::Outbox);
  const fbs::Call &last = program->schedule.back();
  EXPECT_EQ(last.inbox(), 1u);
  EXPECT_EQ(last.outbox(), 1u);
}

TEST_F(TokensTest, WithoutQueuesThereAreNone) {
  std::string text = kReduced;
  for (const char *attribute : {" {exec.queue = #exec.queue<collective>}"})
    for (size_t at; (at = text.find(attribute)) != std::string::npos;)
      text.erase(at, std::strlen(attribute));
  for (auto [wait, value] : {std::pair("%t = exec.wait %s", "%t"), {"%u = exec.wait %r", "%u"}})
    text.replace(text.find(wait), std::strlen(wait), std::string(value) + " = exec.copy %a");
  build(text);
  EXPECT_TRUE(program->tokens.empty());
  EXPECT_EQ(program->queues.size(), 1u);
  for (const auto &instruction : program->functions[0]->instructions) {
    EXPECT_TRUE(instruction->waits.empty() && instruction->signals.empty());
    EXPECT_NE(instruction->name, "join");
  }
}
