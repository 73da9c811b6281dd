// Pipelines made by hand: right ones pass, and each kind of fault is found.
#include "Edit.h"
#include "Mutants.h"
#include "PipelinePrograms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace dtc;
using namespace dtc::replay::test;
using schedule::ScheduleKind;
using testing::HasSubstr;

namespace {

struct Case {
  const char *name;
  PipelineShape shape;
};

class Pipelines : public testing::TestWithParam<Case> {};

constexpr ScheduleKind kOneFOneB = ScheduleKind::OneFOneB;

const Case kCases[] = {
    {"OneRank", {{kOneFOneB, 1, 1, 1}}},
    {"OneRankFourMicrobatches", {{kOneFOneB, 1, 1, 4}}},
    {"GPipe", {{ScheduleKind::GPipe, 3, 1, 4}}},
    {"OneFOneB", {{kOneFOneB, 4, 1, 6}}},
    {"OneFOneBFewMicrobatches", {{kOneFOneB, 4, 1, 2}}},
    {"OneFOneBTensorParallel", {{kOneFOneB, 3, 1, 5}, 4}},
    {"Interleaved", {{ScheduleKind::Interleaved, 2, 2, 4}, 2}},
    {"ZeroBubble", {{ScheduleKind::ZeroBubble, 4, 1, 6}}},
    {"ListKeepingOne", {{ScheduleKind::ListScheduled, 3, 1, 4, 1}}},
    {"ListKeepingTwo", {{ScheduleKind::ListScheduled, 4, 1, 6, 2}}},
};

/// Two stages of 1F1B with four microbatches, two ranks each.
class Faults : public testing::Test {
protected:
  Programs pipeline = makePipeline({{kOneFOneB, 2, 1, 4}, 2});

  fbs::ProgramT &program(size_t role) { return *pipeline.programs[role]; }
  fbs::FunctionT &function(size_t role, const std::string &name) {
    return pipeline.function(role, name);
  }
  fbs::InstructionT &instruction(size_t role, const std::string &name, const std::string &op) {
    auto &list = function(role, name).instructions;
    return **std::ranges::find_if(list, [&](const auto &entry) { return entry->name == op; });
  }
  fbs::Call &call(size_t role, const std::string &name, size_t n) {
    return program(role).schedule[pipeline.callIndex(role, name, n)];
  }
  void erase(size_t role, const std::string &name, size_t n) {
    auto &schedule = program(role).schedule;
    schedule.erase(schedule.begin() + pipeline.callIndex(role, name, n));
  }
  /// What the loss needs stays; in this pipeline each stage sends what it computed forward.
  void leaveOutBackward() {
    const std::set<std::string> kept = {"receive_forward", "embed",        "all_reduce",
                                        "output",          "send_forward", "loss"};
    for (const auto &each : pipeline.programs)
      for (const auto &function : each->functions)
        for (const auto &entry : function->instructions)
          entry->training_only = !(kept.contains(entry->name) &&
                                   (entry->name != "all_reduce" || function->name == "forward0"));
    for (auto &entry : function(1, "clear").instructions)
      entry->training_only = false;
  }
  void expect(const std::string &message) { EXPECT_THAT(pipeline.replay(), HasSubstr(message)); }
};

std::string nameOf(const testing::TestParamInfo<Case> &info) { return info.param.name; }

} // namespace

TEST_P(Pipelines, AreRight) { EXPECT_EQ(makePipeline(GetParam().shape).replay(), ""); }

TEST_P(Pipelines, EveryMutantIsFound) {
  std::vector<std::string> missed;
  auto counts = replayMutants(makePipeline(GetParam().shape).roles(), 6, missed);
  EXPECT_THAT(missed, testing::IsEmpty());
  EXPECT_GE(counts.size(), 12u); // kinds
}

INSTANTIATE_TEST_SUITE_P(All, Pipelines, testing::ValuesIn(kCases), nameOf);

TEST_F(Faults, WrongSlot) {
  set(call(0, "backward0", 1), &CallFields::slot, 0);
  expect("reads Kept 'kept0' of instruction 4 'keep' in step 1: call 3 @forward0 (microbatch 1");
}

TEST_F(Faults, SwappedSlots) {
  set(call(0, "forward0", 0), &CallFields::slot, 1);
  set(call(0, "forward0", 1), &CallFields::slot, 0);
  expect("lies there");
}

TEST_F(Faults, StaleSlot) {
  // A forward call that keeps its activation elsewhere leaves that of another microbatch.
  set(call(0, "forward0", 3), &CallFields::slot, call(0, "forward0", 3).slot() ^ 1);
  expect("'kept0'");
}

TEST_F(Faults, DroppedWaitOfAReceiver) {
  instruction(1, "forward0", "embed").waits.clear();
  expect("role 1 (rank 2 and 1 more): step 1: call 2 @forward0 (microbatch 0, slot 0, inbox 0, "
         "outbox 0): instruction 0 'embed': reads Inbox 'act1'");
  expect("without waiting for it");
}

TEST_F(Faults, DroppedWaitOfASender) {
  instruction(0, "send_forward0", "send_forward").waits.clear();
  expect("without waiting for it");
}

TEST_F(Faults, DroppedWaitForAnEmptyOutbox) {
  instruction(0, "forward0", "output").waits.clear();
  expect("which may still be read");
}

TEST_F(Faults, DroppedWaitForAnEmptyInbox) {
  instruction(1, "receive_forward0", "receive_forward").waits.clear();
  expect("which may still be read");
}

TEST_F(Faults, DroppedSignal) {
  instruction(0, "forward0", "output").signals.clear();
  expect("without waiting for it");
}

TEST_F(Faults, WrongInbox) {
  set(call(1, "forward0", 1), &CallFields::inbox, 0);
  expect("reads Inbox 'act1' of instruction 0 'receive_forward' in step 1: call 5");
}

TEST_F(Faults, WrongOutbox) {
  set(call(0, "send_forward0", 1), &CallFields::outbox, 0);
  expect("reads Outbox 'act1'");
}

TEST_F(Faults, LostSend) {
  erase(0, "send_forward0", 1);
  expect("the schedule calls @send_forward0 3 times in a step of 4 microbatches");
}

TEST_F(Faults, LostReceive) {
  // The instruction is gone, not the call.
  function(1, "receive_forward0").instructions.clear();
  expect("returns value 0 as Inbox 'act1', but nothing lies there");
}

TEST_F(Faults, DoubledMessage) {
  auto &list = function(0, "send_forward0").instructions;
  list.push_back(std::make_unique<fbs::InstructionT>(*list[0]));
  expect("receives Inbox 'act1' of microbatch 1 of step 1, 256 bytes, but role 0 (rank 0 and 1 "
         "more) sends Outbox 'act1' of microbatch 0 of step 1, 256 bytes");
}

TEST_F(Faults, SendThatNobodyReceives) {
  auto &op = *instruction(0, "send_forward0", "send_forward").op.AsMessage();
  op.channel = 77;
  expect("receives a message that nobody sends");
}

TEST_F(Faults, SwappedMessages) {
  std::swap(program(0).schedule[pipeline.callIndex(0, "send_forward0", 0)],
            program(0).schedule[pipeline.callIndex(0, "send_forward0", 1)]);
  EXPECT_NE(pipeline.replay(), "");
}

TEST_F(Faults, SwappedReceives) {
  // The receiver takes microbatch 1 for microbatch 0, consistently.
  set(call(1, "receive_forward0", 0), &CallFields::microbatch, 1);
  set(call(1, "receive_forward0", 1), &CallFields::microbatch, 0);
  set(call(1, "receive_forward0", 0), &CallFields::inbox, 1);
  set(call(1, "receive_forward0", 1), &CallFields::inbox, 0);
  auto first = program(1).schedule.begin() + pipeline.callIndex(1, "receive_forward0", 0);
  auto second = program(1).schedule.begin() + pipeline.callIndex(1, "receive_forward0", 1);
  std::rotate(first + 1, second, second + 1);
  expect("receives Inbox 'act1' of microbatch 1 of step 1, 256 bytes, but role 0 (rank 0 and 1 "
         "more) sends Outbox 'act1' of microbatch 0 of step 1, 256 bytes");
}

TEST_F(Faults, WrongSize) {
  auto &send = *instruction(0, "send_forward0", "send_forward").op.AsMessage();
  send.buffers[0] = {send.buffers[0].ref(), 128};
  expect("128 bytes");
}

TEST_F(Faults, WrongPeer) {
  std::ranges::reverse(program(1).peers[0]->ranks);
  EXPECT_THAT(pipeline.replay(), HasSubstr("nobody"));
}

TEST_F(Faults, PeerOfOneRank) {
  program(0).peers[0]->ranks[1] = -1;
  // The other side, role 1, would wait; role 0 misses what it should receive from there.
  expect("role 0 (rank 1): step 1: call 5 @receive_backward0 (microbatch 0, slot 0, inbox 0, outbox "
         "0): returns value 0 of instruction 0 'receive_backward' as Inbox 'dact1', but nothing lies");
}

TEST_F(Faults, WrongMicrobatch) {
  set(call(0, "backward0", 2), &CallFields::microbatch, 1);
  expect("the schedule calls @backward0 twice for microbatch 1");
}

TEST_F(Faults, WrongOrderOfMicrobatches) {
  std::swap(program(1).schedule[pipeline.callIndex(1, "backward0", 0)],
            program(1).schedule[pipeline.callIndex(1, "backward0", 1)]);
  EXPECT_NE(pipeline.replay(), "");
}

TEST_F(Faults, MissingClear) {
  erase(0, "clear", 0);
  expect("the schedule calls @clear 0 times");
}

TEST_F(Faults, AccumulatorThatIsNotCleared) {
  function(0, "clear").instructions.clear();
  expect("returns value 0 as Gradient 'g0', but nothing lies there");
}

TEST_F(Faults, StaleAccumulator) {
  program(0).functions.erase(program(0).functions.begin() + pipeline.functionIndex(0, "clear"));
  auto &schedule = program(0).schedule;
  schedule.erase(schedule.begin());
  for (fbs::Call &call : schedule) // @clear was before @update
    set(call, &CallFields::function,
        std::min<uint32_t>(call.function(), program(0).functions.size() - 1));
  expect("reads Gradient 'g0', which nothing has computed in this step");
}

TEST_F(Faults, UpdateBeforeTheLastMicrobatch) {
  auto &schedule = program(0).schedule;
  std::swap(schedule[pipeline.callIndex(0, "update")], schedule[pipeline.callIndex(0, "backward0", 3)]);
  expect("@update: instruction 0 'square': takes Gradient 'g0', which so far is the sum of only 3 "
         "microbatches");
}

/// Only what was scattered is a part.
TEST_F(Faults, PartOfAGradientThatIsWhole) {
  auto &update = function(0, "update");
  auto argument = std::ranges::find_if(update.arguments, [&](const fbs::BoundValue &bound) {
    return program(0).bindings[bound.binding()]->kind == fbs::BindingKind::Gradient;
  });
  fbs::Value &value = update.values[argument->value()];
  const uint64_t bytes = value.bytes();
  value = fbs::Value(value.ref(), bytes / 2);
  expect("takes " + std::to_string(bytes / 2) + " bytes of Gradient 'g0', of which " +
         std::to_string(bytes) + " were given");
  value = fbs::Value(value.ref(), 2 * bytes);
  expect("has another size than its binding: Gradient 'g0'");
}

/// A function of the last microbatch alone, which says for which other one it stands.
TEST_F(Faults, FunctionOfTheLastMicrobatch) {
  const size_t index = pipeline.callIndex(0, "backward0", 3);
  const size_t before = pipeline.callIndex(0, "backward0", 2);
  const uint32_t first = program(0).schedule[index].function();
  auto &functions = program(0).functions;
  auto last = static_cast<uint32_t>(functions.size());
  functions.push_back(std::make_unique<fbs::FunctionT>(*functions[first]));
  functions[last]->name = "backward0_last";
  set(program(0).schedule[index], &CallFields::function, last);
  expect("the schedule calls @backward0 3 times in a step of 4 microbatches");
  functions[last]->last_of = static_cast<int32_t>(first);
  EXPECT_EQ(pipeline.replay(), "");

  set(program(0).schedule[before], &CallFields::function, last);
  expect("the schedule calls @backward0_last, which is for the last microbatch, for microbatch 2");
  set(program(0).schedule[before], &CallFields::function, first);
  functions[last]->last_of = static_cast<int32_t>(pipeline.functionIndex(0, "forward0"));
  expect("@backward0_last stands for what takes or gives something else: @forward0");
  for (int32_t other : {static_cast<int32_t>(last), 99}) {
    functions[last]->last_of = other;
    expect("@backward0_last stands for what is no function of other microbatches: " +
           std::to_string(other));
  }
}

TEST_F(Faults, GroupOfAnotherRole) {
  instruction(1, "update", "all_reduce").op.AsCollective()->group = 0;
  expect("is a collective that role 1 (rank 2 and 1 more) of its group doesn't make");
}

TEST_F(Faults, OtherCollective) {
  instruction(1, "update", "all_reduce").op.AsCollective()->reduce = fbs::ReduceKind::Max;
  expect("is another collective than that of role 1");
}

TEST_F(Faults, Deadlock) {
  // Both ranks send on the queue that they receive on, and each waits for the other.
  for (size_t role : {0, 1})
    for (auto &function : program(role).functions)
      for (auto &entry : function->instructions)
        if (entry->op.type == fbs::Op::Message)
          entry->queue = 1;
  Programs gpipe = makePipeline({{ScheduleKind::GPipe, 2, 1, 4}, 2});
  expect("waits for ever");
}

TEST_F(Faults, WaitForEver) {
  // The receiver begins with the gradient of what it hasn't sent yet.
  auto &schedule = program(0).schedule;
  auto receive = schedule.begin() + pipeline.callIndex(0, "receive_backward0", 0);
  auto forward = schedule.begin() + pipeline.callIndex(0, "forward0", 0);
  std::rotate(forward, receive, receive + 1);
  instruction(0, "forward0", "embed").waits.push_back(
      instruction(0, "backward0", "seed").waits[0]);
  expect("waits for ever");
}

TEST_F(Faults, RacingWriters) {
  // The gradient is added up on the queue of a message, beside the computation.
  instruction(0, "backward0", "dw").queue = 1;
  EXPECT_NE(pipeline.replay(), "");
}

TEST_F(Faults, RaceOfMessages) {
  // The sends of a channel go to two queues in turn, so that they may overtake each other.
  auto &list = function(0, "send_forward0").instructions;
  list.push_back(std::make_unique<fbs::InstructionT>(*list[0]));
  list[1]->queue = 2;
  expect("may begin before the one that was issued before it to the same ranks");
}

TEST_F(Faults, EvaluationNeedsNoBackwardPass) {
  leaveOutBackward();
  EXPECT_EQ(pipeline.replay(), "");
}

TEST_F(Faults, EvaluationLacksWhatItReads) {
  leaveOutBackward();
  instruction(0, "forward0", "embed").training_only = true;
  expect("evaluation: call 1 @forward0 (microbatch 0, slot 0, inbox 0, outbox 0): instruction 1 "
         "'all_reduce': reads value");
  expect("which nothing has computed in this step");
}

TEST_F(Faults, EvaluationLacksTheLoss) {
  leaveOutBackward();
  instruction(1, "backward0", "loss").training_only = true;
  expect("evaluation: at the end Loss 'loss' was not computed");
}

TEST_F(Faults, EvaluationSendsWhatNobodyTakes) {
  leaveOutBackward();
  instruction(1, "receive_forward0", "receive_forward").training_only = true;
  instruction(1, "forward0", "embed").training_only = true;
  instruction(1, "forward0", "all_reduce").training_only = true;
  expect("of evaluation");
}

TEST_F(Faults, EarlyReuse) {
  // 'reduced', which the last kernel reads, in a buffer of the kernels between.
  fbs::FunctionT &forward = function(0, "forward0");
  uint32_t reduced = instruction(0, "forward0", "all_reduce").writes[0];
  uint32_t between = instruction(0, "forward0", "layer1").writes[0];
  forward.values[between] = forward.values[reduced];
  for (const char *name : {"layer1", "keep"})
    for (auto *args : {&instruction(0, "forward0", name).op.AsLaunch()->args})
      for (size_t i = 0; i < args->size(); ++i)
        if (auto &entry = instruction(0, "forward0", name);
            (i < entry.reads.size() ? entry.reads[i] : entry.writes[i - entry.reads.size()]) ==
            between)
          (*args)[i] = forward.values[reduced].ref();
  // The kernel may not overwrite an operand while it reads it.
  expect("instruction 3 'layer1': writes value");
}

TEST_F(Faults, SlotsTooSmall) {
  // Slots that overlap, consistently in all functions.
  for (auto &binding : program(0).bindings)
    if (binding->kind == fbs::BindingKind::Kept)
      setStride(*binding->ref, 128);
  for (auto &function : program(0).functions) {
    for (fbs::Value &value : function->values)
      if (fbs::Ref ref = value.ref(); ref.scope() == fbs::Scope::Slot) {
        setStride(ref, 128);
        setRef(value, ref);
      }
    for (auto &entry : function->instructions)
      if (auto *launch = entry->op.AsLaunch())
        for (fbs::Ref &ref : launch->args)
          if (ref.scope() == fbs::Scope::Slot)
            setStride(ref, 128);
  }
  expect("'kept0'");
}

TEST_F(Faults, NoSuchPlace) {
  program(0).arena_bytes = 4096;
  expect("reaches out of the arena");
}

TEST_F(Faults, BindingsThatOverlap) {
  // The rate of learning lies where the step number does.
  for (const char *name : {"update"})
    for (const fbs::BoundValue &bound : function(0, name).arguments)
      if (program(0).bindings[bound.binding()]->kind == fbs::BindingKind::LearningRate) {
        fbs::Value &value = function(0, name).values[bound.value()];
        auto step = std::ranges::find_if(program(0).bindings, [](const auto &binding) {
          return binding->kind == fbs::BindingKind::StepNumber;
        });
        setRef(value, *(*step)->ref);
        *program(0).bindings[bound.binding()]->ref = *(*step)->ref;
        for (auto &entry : function(0, name).instructions)
          for (size_t i = 0; i < entry->reads.size(); ++i)
            if (entry->reads[i] == bound.value())
              entry->op.AsLaunch()->args[i] = value.ref();
      }
  expect("lies over another binding");
}
