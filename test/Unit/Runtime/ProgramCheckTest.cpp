// Programs that would reach out of the arena, or make no sense, are refused at load.
#include "ProgramCheck.h"

#include <functional>

using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

/// Checks a program of one op, as made and after each change.
template <typename Op> struct Case {
  std::function<Op()> make;
  Json manifest = meshOf4();

  std::string after(std::function<void(Op &, fbs::ProgramT &)> change) const {
    fbs::ProgramT program = emptyProgram(manifest, kArena);
    program.kernels = {"k"};
    Op &op = addInstruction(program, make());
    change(op, program);
    return check(program, manifest);
  }
  void expectRefused(const std::string &word,
                     std::function<void(Op &, fbs::ProgramT &)> change) const {
    std::string message = after(change);
    EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
  }
  void expectOk() const {
    EXPECT_EQ(after([](Op &, fbs::ProgramT &) {}), "");
  }
};

fbs::MatmulT matmul() {
  fbs::MatmulT op;
  op.a = tensorAt(0, {4, 8});
  op.b = tensorAt(256, {8, 2});
  op.c = tensorAt(512, {4, 2});
  return op;
}

fbs::CollectiveT collective() {
  fbs::CollectiveT op;
  op.kind = fbs::CollectiveKind::AllGather;
  op.group = 1;
  op.dtype = fbs::DType::F32;
  op.dim = 0;
  auto operand = std::make_unique<fbs::CollectiveOperandT>();
  operand->source = std::make_unique<fbs::Ref>(stepRef(0));
  operand->target = std::make_unique<fbs::Ref>(stepRef(64));
  operand->shape = {4, 4};
  op.operands.push_back(std::move(operand));
  return op;
}

fbs::ConvT conv() {
  fbs::ConvT op;
  op.kind = fbs::ConvKind::Forward;
  op.input = tensorAt(0, {1, 2, 6});
  op.weight = tensorAt(64, {4, 2, 3});
  op.output = tensorAt(256, {1, 4, 4});
  op.strides = {1};
  op.pad_low = {0};
  op.pad_high = {0};
  op.dilations = {1};
  op.groups = 1;
  return op;
}

/// Of 4 heads that share 2 heads of keys.
fbs::AttentionT attention() {
  using Shape = std::vector<int64_t>;
  fbs::AttentionT op;
  op.scale = 0.5;
  op.causal = true;
  for (auto [offset, shape] : {std::pair(0, Shape{1, 2, 4, 2}),
                               {64, Shape{1, 3, 2, 2}},
                               {128, Shape{1, 3, 2, 2}},
                               {256, Shape{1, 2, 4, 2}},
                               {320, Shape{1, 4, 2}}})
    op.tensors.push_back(tensorAt(offset, shape));
  return op;
}

fbs::MessageT message() {
  fbs::MessageT op;
  op.kind = fbs::MessageKind::Send;
  op.buffers = {fbs::MessageBuffer(stepRef(0), 64), fbs::MessageBuffer(stepRef(64), 8)};
  return op;
}

fbs::LaunchT launch() {
  fbs::LaunchT op;
  op.kernel = 0;
  op.args = {stepRef(0), stepRef(64)};
  op.extent = 10;
  op.grain = 1;
  return op;
}

} // namespace

TEST(ProgramCheck, NotAFlatBuffer) {
  Manifest manifest = parsed(meshOf4());
  for (std::string bytes : {std::string(), std::string("DTCP"), std::string(100, '\xff')})
    EXPECT_FALSE(ProgramView::open(bytes, manifest));
}

TEST(ProgramCheck, NoDamageCrashes) {
  Json manifest = meshOf4();
  fbs::ProgramT program = emptyProgram(manifest, kArena);
  program.kernels = {"k"};
  addInstruction(program, matmul());
  addInstruction(program, collective());
  addInstruction(program, conv());
  addInstruction(program, launch());
  program.peers.push_back(std::make_unique<fbs::RankListT>());
  program.peers[0]->ranks = {1, 0, 3, 2};
  addInstruction(program, message());
  program.tokens = {fbs::Scope::Step};
  program.functions[0]->instructions[0]->signals = {0};
  program.functions[0]->values = {fbs::Value(stepRef(0), 64)};
  program.functions[0]->instructions[0]->reads = {0};
  program.functions[0]->arguments = {fbs::BoundValue(0, 0)};
  program.bindings.push_back(bindingOf(fbs::BindingKind::Kept, "a", 0, {4, 2}, {2, 2}, {{1}}));
  std::string bytes = serialized(program);
  Manifest known = parsed(manifest);
  ASSERT_TRUE(ProgramView::open(bytes, known));
  for (size_t at = 0; at < bytes.size(); ++at)
    for (char value : {'\x00', '\x01', '\x7f', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = value;
      (void)ProgramView::open(damaged, known); // must return, either way
    }
  for (size_t keep = 0; keep < bytes.size(); ++keep)
    (void)ProgramView::open(std::string(bytes.data(), keep), known);
}

TEST(ProgramCheck, Matmul) {
  Case<fbs::MatmulT> test{matmul};
  test.expectOk();
  using Op = fbs::MatmulT;
  using Program = fbs::ProgramT;
  test.expectRefused("out of the arena", [](Op &op, Program &) { *op.c->ref = stepRef(kArena - 28); });
  test.expectRefused("out of the arena", [](Op &op, Program &) { *op.a->ref = stepRef(~0ull - 3); });
  test.expectRefused("not aligned", [](Op &op, Program &) { *op.a->ref = stepRef(2); });
  test.expectRefused("out of the arena", [](Op &op, Program &) { op.a->strides = {1024, 1}; });
  test.expectRefused("strides", [](Op &op, Program &) { op.a->strides = {-8, 1}; });
  test.expectRefused("strides", [](Op &op, Program &) { op.a->strides = {INT64_MAX, 1}; });
  test.expectRefused("coincide", [](Op &op, Program &) { op.c->strides = {0, 1}; });
  test.expectRefused("do not fit", [](Op &op, Program &) { op.b->shape = {4, 2}; });
  test.expectRefused("rank", [](Op &op, Program &) { op.b->shape = {1, 8, 2}; op.b->strides = {1, 2, 1}; });
  test.expectRefused("shape", [](Op &op, Program &) { op.a->shape = {0, 8}; });
  test.expectRefused("shape", [](Op &op, Program &) { op.a->strides = {1}; });
  test.expectRefused("element type", [](Op &op, Program &) { op.a->dtype = fbs::DType(77); });
  test.expectRefused("missing", [](Op &op, Program &) { op.scratch_bytes = 64; });
  test.expectRefused("out of the arena", [](Op &op, Program &) {
    op.scratch = std::make_unique<fbs::Ref>(stepRef(64));
    op.scratch_bytes = kArena;
  });
  test.expectRefused("batch", [](Op &op, Program &) {
    op.a = tensorAt(0, {3, 2, 2});
    op.b = tensorAt(0, {2, 2, 2});
    op.c = tensorAt(512, {3, 2, 2});
  });
}

TEST(ProgramCheck, ReferencesMoveWithTheCall) {
  Case<fbs::MatmulT> test{matmul};
  test.manifest["global_batch"] = 4;
  using Op = fbs::MatmulT;
  using Program = fbs::ProgramT;
  auto perSlot = [](Op &op, Program &program) {
    *op.c->ref = scopeRef(fbs::Scope::Slot, 512, 1024);
    program.schedule.push_back(fbs::Call(0, 0, 2, 0, 0));
  };
  EXPECT_EQ(test.after(perSlot), "");
  test.expectRefused("out of the arena", [&](Op &op, Program &program) {
    perSlot(op, program);
    program.schedule.push_back(fbs::Call(0, 0, 4, 0, 0));
  });
  test.expectRefused("stride", [&](Op &op, Program &program) {
    perSlot(op, program);
    *op.c->ref = scopeRef(fbs::Scope::Slot, 512, ~0ull);
  });
  test.expectRefused("stride", [&](Op &op, Program &program) {
    perSlot(op, program);
    *op.c->ref = scopeRef(fbs::Scope::Slot, 512, 1022);
  });
  auto perMicrobatch = [](Op &op, Program &program) {
    *op.c->ref = scopeRef(fbs::Scope::Microbatch, 512, 1024);
    program.num_microbatches = 4;
    program.schedule.push_back(fbs::Call(0, 3, 0, 0, 0));
  };
  EXPECT_EQ(test.after(perMicrobatch), "");
  test.expectRefused("out of the arena", [&](Op &op, Program &program) {
    perMicrobatch(op, program);
    *op.c->ref = scopeRef(fbs::Scope::Microbatch, 1024, 1024);
  });
  test.expectRefused("microbatch: 4", [&](Op &op, Program &program) {
    perMicrobatch(op, program);
    program.schedule.push_back(fbs::Call(0, 4, 0, 0, 0));
  });
  for (auto scope : {fbs::Scope::Inbox, fbs::Scope::Outbox}) {
    auto inBox = [scope](Op &op, Program &program, uint32_t number) {
      *op.c->ref = scopeRef(scope, 512, 1024);
      program.schedule.push_back(fbs::Call(0, 0, 0, number, number));
    };
    EXPECT_EQ(test.after([&](Op &op, Program &program) { inBox(op, program, 3); }), "");
    test.expectRefused("out of the arena",
                       [&](Op &op, Program &program) { inBox(op, program, 4); });
  }
  test.expectRefused("kind of reference", [&](Op &op, Program &) {
    *op.c->ref = scopeRef(fbs::Scope(9), 512, 0);
  });
}

/// What one function keeps in many small slots, another may in few large ones.
TEST(ProgramCheck, FunctionsHaveTheirOwnSlots) {
  Json manifest = meshOf4();
  fbs::ProgramT program = emptyProgram(manifest, kArena);
  program.functions.push_back(std::make_unique<fbs::FunctionT>());
  program.functions[1]->name = "other";
  fbs::ZeroT zero;
  zero.target = std::make_unique<fbs::Ref>(scopeRef(fbs::Scope::Slot, 0, 2048));
  zero.bytes = 2048;
  addInstruction(program, std::move(zero));
  program.schedule = {fbs::Call(0, 0, 1, 0, 0), fbs::Call(1, 0, 100, 0, 0)};
  EXPECT_EQ(check(program, manifest), "");
  program.schedule.push_back(fbs::Call(0, 0, 2, 0, 0));
  EXPECT_NE(check(program, manifest).find("out of the arena"), std::string::npos);
}

TEST(ProgramCheck, HostMemoryIsApart) {
  Case<fbs::MatmulT> test{matmul};
  using Op = fbs::MatmulT;
  using Program = fbs::ProgramT;
  auto onHost = [](Op &op, Program &program, uint64_t bytes) {
    *op.c->ref = fbs::Ref(64, 0, fbs::Scope::Step, fbs::Space::Host);
    program.host_arena_bytes = bytes;
  };
  EXPECT_EQ(test.after([&](Op &op, Program &p) { onHost(op, p, 96); }), "");
  test.expectRefused("out of the arena", [&](Op &op, Program &p) { onHost(op, p, 95); });
  test.expectRefused("kind of reference", [&](Op &op, Program &) {
    *op.c->ref = fbs::Ref(64, 0, fbs::Scope::Step, fbs::Space(2));
  });
  test.expectRefused("arena", [](Op &, Program &p) { p.host_arena_bytes = ~0ull; });
}

TEST(ProgramCheck, QueuesTokensAndValues) {
  Case<fbs::MatmulT> test{matmul};
  using Op = fbs::MatmulT;
  using Program = fbs::ProgramT;
  auto first = [](Program &p) -> fbs::InstructionT & { return *p.functions[0]->instructions[0]; };
  auto full = [&](Program &p) {
    p.queues.push_back(std::make_unique<fbs::QueueT>());
    p.queues[1]->kind = fbs::QueueKind::Send;
    p.tokens = {fbs::Scope::Slot};
    p.functions[0]->values = {fbs::Value(stepRef(0), kArena)};
    p.bindings.push_back(bindingOf(fbs::BindingKind::Kept, "a", 0, {4}, {4}));
    p.functions[0]->arguments = {fbs::BoundValue(0, 0)};
    first(p).queue = 1;
    first(p).waits = first(p).signals = first(p).reads = first(p).writes = {0};
  };
  EXPECT_EQ(test.after([&](Op &, Program &p) { full(p); }), "");
  auto refused = [&](const std::string &word, std::function<void(Program &)> change) {
    test.expectRefused(word, [&](Op &, Program &p) {
      full(p);
      change(p);
    });
  };
  refused("queue: 2", [&](Program &p) { first(p).queue = 2; });
  refused("kind of queue", [](Program &p) { p.queues[1]->kind = fbs::QueueKind(7); });
  refused("two queues named", [](Program &p) { p.queues[1]->name = p.queues[0]->name; });
  refused("does not compute", [](Program &p) { p.queues[0]->kind = fbs::QueueKind::Send; });
  refused("does not compute", [](Program &p) { p.queues.clear(); });
  refused("token: 1", [&](Program &p) { first(p).waits = {1}; });
  refused("token: 7", [&](Program &p) { first(p).signals = {0, 7}; });
  refused("scope of a token", [](Program &p) { p.tokens = {fbs::Scope(5)}; });
  refused("value: 1", [&](Program &p) { first(p).reads = {1}; });
  refused("value: 4", [&](Program &p) { first(p).writes = {4}; });
  refused("a value reaches out of the arena",
          [](Program &p) { p.functions[0]->values = {fbs::Value(stepRef(1), kArena)}; });
  refused("argument", [](Program &p) { p.functions[0]->arguments = {fbs::BoundValue(1, 0)}; });
  refused("argument", [](Program &p) { p.functions[0]->results = {fbs::BoundValue(0, 1)}; });
}

TEST(ProgramCheck, Message) {
  Case<fbs::MessageT> test{message};
  using Op = fbs::MessageT;
  using Program = fbs::ProgramT;
  auto with = [](Program &p, std::vector<int> peers) {
    p.peers.push_back(std::make_unique<fbs::RankListT>());
    p.peers[0]->ranks = std::move(peers);
  };
  EXPECT_EQ(test.after([&](Op &, Program &p) { with(p, {2, 3, -1, -1}); }), "");
  auto refused = [&](const std::string &word, std::vector<int> peers,
                     std::function<void(Op &)> change = [](Op &) {}) {
    test.expectRefused(word, [&](Op &op, Program &p) {
      with(p, peers);
      change(op);
    });
  };
  refused("role's size: 3", {2, 3, -1});
  refused("peer is no other rank of the world: 4", {2, 4, -1, -1});
  refused("peer is no other rank of the world: -2", {2, -2, -1, -1});
  refused("peer is no other rank of the world: 1", {2, 1, -1, -1}); // itself
  refused("unknown peers: 1", {2, 3, -1, -1}, [](Op &op) { op.peers = 1; });
  refused("kind of message", {2, 3, -1, -1}, [](Op &op) { op.kind = fbs::MessageKind(2); });
  refused("out of the arena", {2, 3, -1, -1},
          [](Op &op) { op.buffers[1] = fbs::MessageBuffer(stepRef(kArena), 1); });
}

TEST(ProgramCheck, Groups) {
  Case<fbs::MatmulT> test{matmul};
  auto groups = [&](const std::vector<std::vector<int>> &lists) {
    return test.after([&](fbs::MatmulT &, fbs::ProgramT &p) { p.groups.push_back(groupOf(lists)); });
  };
  EXPECT_EQ(groups({{3, 1}, {0, 2}}), "");
  EXPECT_NE(groups({{0, 1}, {2}}).find("different lengths: 1"), std::string::npos);
  EXPECT_NE(groups({{0, 1}, {2, 2}}).find("repeated rank: 2"), std::string::npos);
  EXPECT_NE(groups({{0, 1}, {2, 4}}).find("unknown or repeated rank: 4"), std::string::npos);
  EXPECT_NE(groups({{0, 1}}).find("lacks a rank of the role: 2"), std::string::npos);
  EXPECT_NE(groups({}).find("lacks a rank of the role: 0"), std::string::npos);
  EXPECT_NE(groups({{}}).find("different lengths: 0"), std::string::npos);
}

TEST(ProgramCheck, Header) {
  Case<fbs::MatmulT> test{matmul};
  using Op = fbs::MatmulT;
  using Program = fbs::ProgramT;
  test.expectRefused("mesh", [](Op &, Program &p) { p.mesh_axes[0]->size = 4; });
  test.expectRefused("mesh", [](Op &, Program &p) { p.mesh_axes.pop_back(); });
  test.expectRefused("mesh axis: -2", [](Op &, Program &p) { p.mesh_axes[0]->size = -2; });
  test.expectRefused("mesh axis: 1073741824", [](Op &, Program &p) { p.mesh_axes[0]->size = 1 << 30; });
  test.expectRefused("two mesh axes named: tp", [](Op &, Program &p) { p.mesh_axes[0]->name = "tp"; });
  test.expectRefused("threads", [](Op &, Program &p) { p.threads = 2; });
  test.expectRefused("microbatches", [](Op &, Program &p) { p.num_microbatches = 0; });
  test.expectRefused("arena", [](Op &, Program &p) { p.arena_bytes = ~0ull; });
  test.expectRefused("function", [](Op &, Program &p) { p.schedule.push_back(fbs::Call(1, 0, 0, 0, 0)); });
}

TEST(ProgramCheck, Collective) {
  Case<fbs::CollectiveT> test{collective};
  test.expectOk();
  using Op = fbs::CollectiveT;
  using Program = fbs::ProgramT;
  using fbs::CollectiveKind;
  test.expectRefused("group: 2", [](Op &op, Program &) { op.group = 2; });
  test.expectRefused("dimension", [](Op &op, Program &) { op.dim = 2; });
  test.expectRefused("dimension", [](Op &op, Program &) { op.dim = -1; });
  test.expectRefused("overlap", [](Op &op, Program &) { *op.operands[0]->target = stepRef(32); });
  test.expectRefused("arena", [](Op &op, Program &) { *op.operands[0]->target = stepRef(kArena - 64); });
  test.expectRefused("divide", [](Op &op, Program &) {
    op.kind = CollectiveKind::ReduceScatter;
    op.operands[0]->shape = {3, 4};
  });
  test.expectRefused("out of range: 7", [](Op &op, Program &) {
    op.kind = CollectiveKind::AllToAll;
    op.concat_dim = 7;
  });
  test.expectRefused("overlap", [](Op &op, Program &) { // only all_to_all can't be in place
    op.kind = CollectiveKind::AllToAll;
    op.concat_dim = 1;
    *op.operands[0]->target = stepRef(0);
  });
  test.expectRefused("sources", [](Op &op, Program &) {
    op.kind = CollectiveKind::Permute;
    op.sources = {0};
  });
  test.expectRefused("source out of range: 2", [](Op &op, Program &) {
    op.kind = CollectiveKind::Permute;
    op.sources = {0, 2};
  });
  test.expectRefused("reduced", [](Op &op, Program &) {
    op.kind = CollectiveKind::AllReduce;
    op.dtype = fbs::DType::Bool;
  });
  test.expectRefused("shape", [](Op &op, Program &) { op.operands[0]->shape = {-4, 4}; });
  test.expectRefused("operands", [](Op &op, Program &) { op.operands.clear(); });
  test.expectRefused("kind", [](Op &op, Program &) { op.kind = CollectiveKind(99); });
  // Reductions, gathers and scatters take a bucket; nothing else does.
  auto twice = [](Op &op, CollectiveKind kind) {
    op.kind = kind;
    op.concat_dim = 1;
    op.operands.push_back(std::make_unique<fbs::CollectiveOperandT>(*op.operands[0]));
  };
  for (CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
    EXPECT_EQ(test.after([&](Op &op, Program &) { twice(op, kind); }), "");
  for (CollectiveKind kind : {CollectiveKind::AllToAll, CollectiveKind::Slice})
    test.expectRefused("number of operands: 2", [&](Op &op, Program &) { twice(op, kind); });
}

TEST(ProgramCheck, OperandsThatMoveDifferentlyMayNotMeet) {
  Case<fbs::CollectiveT> test{collective};
  using Op = fbs::CollectiveT;
  using Program = fbs::ProgramT;
  auto slots = [](Op &op, Program &program, uint64_t offset, uint64_t stride, uint64_t other) {
    *op.operands[0]->source = scopeRef(fbs::Scope::Slot, 0, stride);
    *op.operands[0]->target = scopeRef(fbs::Scope::Slot, offset, other);
    program.schedule.push_back(fbs::Call(0, 0, 3, 0, 0));
  };
  // Of the same stride: the source of slot 1 and the target of slot 0 never meet.
  EXPECT_EQ(test.after([&](Op &op, Program &p) { slots(op, p, 64, 256, 256); }), "");
  test.expectRefused("overlap", [&](Op &op, Program &p) { slots(op, p, 64, 256, 512); });
  EXPECT_EQ(test.after([&](Op &op, Program &p) { slots(op, p, 1024, 256, 512); }), "");
  test.expectRefused("overlap", [&](Op &op, Program &p) {
    slots(op, p, 0, 256, 256);
    *op.operands[0]->target = stepRef(512); // where slot 2 of the source is
  });
}

TEST(ProgramCheck, Conv) {
  Case<fbs::ConvT> test{conv};
  test.expectOk();
  using Op = fbs::ConvT;
  using Program = fbs::ProgramT;
  test.expectRefused("do not fit", [](Op &op, Program &) { op.output = tensorAt(256, {1, 4, 5}); });
  test.expectRefused("do not fit", [](Op &op, Program &) { op.groups = 2; });
  test.expectRefused("do not fit", [](Op &op, Program &) { op.groups = 0; });
  test.expectRefused("stride", [](Op &op, Program &) { op.strides = {0}; });
  test.expectRefused("padding", [](Op &op, Program &) { op.pad_low = {-1}; });
  test.expectRefused("padding", [](Op &op, Program &) { op.pad_low = {INT64_MAX}; });
  test.expectRefused("spatial rank", [](Op &op, Program &) { op.dilations = {1, 1}; });
  test.expectRefused("rank", [](Op &op, Program &) { op.input = tensorAt(0, {2, 6}); });
}

TEST(ProgramCheck, AddendOfAConv) {
  auto atPlace = [](uint64_t place, fbs::ConvKind kind = fbs::ConvKind::WeightGrad) {
    return [=](fbs::ConvT &op, fbs::ProgramT &) {
      op.kind = kind;
      op.addend = std::make_unique<fbs::Ref>(stepRef(place));
    };
  };
  Case<fbs::ConvT> test{conv};
  test.expectRefused("as GPUs do", atPlace(64));
  test.manifest["target"] = "cuda";
  EXPECT_EQ(test.after(atPlace(64)), "") << "in the place of the gradient";
  EXPECT_EQ(test.after(atPlace(kArena - 96)), "");
  test.expectRefused("arena", atPlace(kArena - 92));
  test.expectRefused("not aligned", atPlace(kArena - 98));
  test.expectRefused("overlap", atPlace(128));
  test.expectRefused("the gradient of a weight: Forward", atPlace(512, fbs::ConvKind::Forward));
}

TEST(ProgramCheck, Attention) {
  Case<fbs::AttentionT> test{attention};
  test.expectOk();
  using Op = fbs::AttentionT;
  using Program = fbs::ProgramT;
  test.expectRefused("number of tensors", [](Op &op, Program &) { op.tensors.pop_back(); });
  test.expectRefused("number of tensors",
                     [](Op &op, Program &) { op.kind = fbs::AttentionKind::Backward; });
  test.expectRefused("do not fit",
                     [](Op &op, Program &) { op.tensors[1] = tensorAt(64, {1, 2, 2, 2}); });
  test.expectRefused("do not fit",
                     [](Op &op, Program &) { op.tensors[4] = tensorAt(320, {1, 2, 4}); });
  test.expectRefused("rank", [](Op &op, Program &) { op.tensors[0] = tensorAt(0, {1, 2, 8}); });
  test.expectRefused("the window isn't one of causal attention: -1",
                     [](Op &op, Program &) { op.window = -1; });
  test.expectRefused("the window isn't one of causal attention: 2", [](Op &op, Program &) {
    op.window = 2;
    op.causal = false;
  });
  test.expectRefused("do not fit", [](Op &op, Program &) { // the first query sees no key
    op.tensors[0] = tensorAt(0, {1, 4, 4, 1});
    op.tensors[1] = tensorAt(64, {1, 3, 2, 1});
    op.tensors[2] = tensorAt(128, {1, 3, 2, 2});
    op.tensors[3] = tensorAt(256, {1, 4, 4, 2});
    op.tensors[4] = tensorAt(320, {1, 4, 4});
  });
}

TEST(ProgramCheck, Launch) {
  Case<fbs::LaunchT> test{launch};
  test.expectOk();
  using Op = fbs::LaunchT;
  using Program = fbs::ProgramT;
  test.expectRefused("kernel", [](Op &op, Program &) { op.kernel = 1; });
  test.expectRefused("arena", [](Op &op, Program &) { op.args[1] = stepRef(kArena + 1); });
  test.expectRefused("extent", [](Op &op, Program &) { op.extent = ~0ull; });
  test.expectRefused("missing", [](Op &op, Program &) { op.scratch_per_thread = 64; });
  test.expectRefused("geometry of a GPU", [](Op &op, Program &) {
    op.geometry = std::make_unique<fbs::Geometry>(1, 32, 0);
  });
  for (auto [blocks, threads, shared] : {std::tuple(0u, 32u, 0u), {1u, 1025u, 0u}, {1u, 32u, ~0u}})
    test.expectRefused("impossible geometry", [=](Op &op, Program &) {
      op.geometry = std::make_unique<fbs::Geometry>(blocks, threads, shared);
    });
}
