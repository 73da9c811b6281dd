// Programs that would reach out of the arena, or make no sense, are refused at load.
#include "TestArtifact.h"

#include "dtc-rt/ProgramView.h"

#include <gtest/gtest.h>

#include <functional>

using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

constexpr uint64_t kArena = 4096;

std::string check(const fbs::ProgramT &program, const Json &manifest) {
  std::string bytes = serialized(program);
  Result<ProgramView> view = ProgramView::open(bytes, parsed(manifest));
  if (view)
    return {};
  EXPECT_EQ(view.status().code(), ExitCode::InputRefused);
  return view.status().message();
}

Json meshOf4() { return emptyManifest({{"dp", 2}, {"tp", 2}}); }

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
  op.axes = {1};
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

TEST(ProgramCheck, SlotsAndMicrobatches) {
  Case<fbs::MatmulT> test{matmul};
  test.manifest["global_batch"] = 4;
  using Op = fbs::MatmulT;
  using Program = fbs::ProgramT;
  auto perSlot = [](Op &op, Program &program) {
    *op.c->ref = fbs::Ref(512, 0, fbs::Per::Slot);
    program.slot_stride = 1024;
    program.schedule.push_back(fbs::Call(0, 0, 2));
  };
  EXPECT_EQ(test.after(perSlot), "");
  test.expectRefused("out of the arena", [&](Op &op, Program &program) {
    perSlot(op, program);
    program.schedule.push_back(fbs::Call(0, 0, 4));
  });
  test.expectRefused("slot stride", [&](Op &op, Program &program) {
    perSlot(op, program);
    program.slot_stride = ~0ull;
  });
  test.expectRefused("slot stride", [&](Op &op, Program &program) {
    perSlot(op, program);
    program.slot_stride = 1022;
  });
  auto perMicrobatch = [](Op &op, Program &program) {
    *op.c->ref = fbs::Ref(512, 1024, fbs::Per::Microbatch);
    program.num_microbatches = 4;
    program.schedule.push_back(fbs::Call(0, 3, 0));
  };
  EXPECT_EQ(test.after(perMicrobatch), "");
  test.expectRefused("out of the arena", [&](Op &op, Program &program) {
    perMicrobatch(op, program);
    *op.c->ref = fbs::Ref(1024, 1024, fbs::Per::Microbatch);
  });
  test.expectRefused("microbatch: 4", [&](Op &op, Program &program) {
    perMicrobatch(op, program);
    program.schedule.push_back(fbs::Call(0, 4, 0));
  });
  test.expectRefused("kind of reference", [&](Op &op, Program &) {
    *op.c->ref = fbs::Ref(512, 0, fbs::Per(9));
  });
}

TEST(ProgramCheck, Header) {
  Case<fbs::MatmulT> test{matmul};
  using Op = fbs::MatmulT;
  using Program = fbs::ProgramT;
  test.expectRefused("mesh", [](Op &, Program &p) { p.mesh_axes[0]->size = 4; });
  test.expectRefused("mesh", [](Op &, Program &p) { p.mesh_axes.pop_back(); });
  test.expectRefused("threads", [](Op &, Program &p) { p.threads = 2; });
  test.expectRefused("microbatches", [](Op &, Program &p) { p.num_microbatches = 0; });
  test.expectRefused("arena", [](Op &, Program &p) { p.arena_bytes = ~0ull; });
  test.expectRefused("function", [](Op &, Program &p) { p.schedule.push_back(fbs::Call(1, 0, 0)); });
}

TEST(ProgramCheck, Collective) {
  Case<fbs::CollectiveT> test{collective};
  test.expectOk();
  using Op = fbs::CollectiveT;
  using Program = fbs::ProgramT;
  using Kind = fbs::CollectiveKind;
  test.expectRefused("axis: 2", [](Op &op, Program &) { op.axes = {2}; });
  test.expectRefused("axis: -1", [](Op &op, Program &) { op.axes = {-1}; });
  test.expectRefused("axis: 1", [](Op &op, Program &) { op.axes = {1, 1}; });
  test.expectRefused("dimension", [](Op &op, Program &) { op.dim = 2; });
  test.expectRefused("dimension", [](Op &op, Program &) { op.dim = -1; });
  test.expectRefused("overlap", [](Op &op, Program &) { *op.operands[0]->target = stepRef(32); });
  test.expectRefused("arena", [](Op &op, Program &) { *op.operands[0]->target = stepRef(kArena - 64); });
  test.expectRefused("divide", [](Op &op, Program &) {
    op.kind = Kind::ReduceScatter;
    op.operands[0]->shape = {3, 4};
  });
  test.expectRefused("out of range: 7", [](Op &op, Program &) {
    op.kind = Kind::AllToAll;
    op.concat_dim = 7;
  });
  test.expectRefused("overlap", [](Op &op, Program &) { // only all_to_all can't be in place
    op.kind = Kind::AllToAll;
    op.concat_dim = 1;
    *op.operands[0]->target = stepRef(0);
  });
  test.expectRefused("sources", [](Op &op, Program &) {
    op.kind = Kind::Permute;
    op.sources = {0};
  });
  test.expectRefused("source out of range: 2", [](Op &op, Program &) {
    op.kind = Kind::Permute;
    op.sources = {0, 2};
  });
  test.expectRefused("reduced", [](Op &op, Program &) {
    op.kind = Kind::AllReduce;
    op.dtype = fbs::DType::Bool;
  });
  test.expectRefused("shape", [](Op &op, Program &) { op.operands[0]->shape = {-4, 4}; });
  test.expectRefused("operands", [](Op &op, Program &) { op.operands.clear(); });
  test.expectRefused("kind", [](Op &op, Program &) { op.kind = Kind(99); });
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

TEST(ProgramCheck, Launch) {
  Case<fbs::LaunchT> test{launch};
  test.expectOk();
  using Op = fbs::LaunchT;
  using Program = fbs::ProgramT;
  test.expectRefused("kernel", [](Op &op, Program &) { op.kernel = 1; });
  test.expectRefused("arena", [](Op &op, Program &) { op.args[1] = stepRef(kArena + 1); });
  test.expectRefused("extent", [](Op &op, Program &) { op.extent = ~0ull; });
  test.expectRefused("missing", [](Op &op, Program &) { op.scratch_per_thread = 64; });
}

TEST(ProgramCheck, InputsAreBatches) {
  Json manifest = meshOf4();
  manifest["global_batch"] = 8;
  manifest["inputs"].push_back({{"name", "x"}, {"dtype", "F32"}, {"shape", {4, 3}},
                                {"sharding", {{"dp"}, Json::array()}}, {"limit", nullptr}});
  for (uint32_t microbatches : {1, 2, 4}) {
    fbs::ProgramT program = emptyProgram(manifest, kArena);
    program.num_microbatches = microbatches;
    auto binding = std::make_unique<fbs::BindingT>();
    binding->name = "x";
    binding->ref = std::make_unique<fbs::Ref>(fbs::Ref(0, 64, fbs::Per::Microbatch));
    binding->local_shape = {2, 3};
    program.inputs.push_back(std::move(binding));
    std::string message = check(program, manifest);
    if (microbatches == 2)
      EXPECT_EQ(message, "");
    else
      EXPECT_NE(message.find("batch of a microbatch: 4x3"), std::string::npos) << message;
  }
}

TEST(ProgramCheck, Bindings) {
  Json manifest = meshOf4();
  manifest["parameters"].push_back({{"name", "w"}, {"aliases", Json::array()}, {"dtype", "F32"},
                                    {"shape", {4, 6}}, {"view", nullptr}, {"trainable", true},
                                    {"sharding", {{"tp"}, Json::array()}},
                                    {"storage_dtype", "F32"}, {"init", nullptr}});
  auto with = [&](std::function<void(fbs::BindingT &, fbs::ProgramT &)> change) {
    fbs::ProgramT program = emptyProgram(manifest, kArena);
    auto binding = std::make_unique<fbs::BindingT>();
    binding->name = "w";
    binding->ref = std::make_unique<fbs::Ref>(stepRef(0));
    binding->dtype = fbs::DType::F32;
    binding->local_shape = {2, 6};
    change(*binding, program);
    program.parameters.push_back(std::move(binding));
    return check(program, manifest);
  };
  using Binding = fbs::BindingT;
  using Program = fbs::ProgramT;
  EXPECT_EQ(with([](Binding &, Program &) {}), "");
  EXPECT_NE(with([](Binding &b, Program &) { b.name = "u"; }).find("unknown"), std::string::npos);
  EXPECT_NE(with([](Binding &b, Program &) { b.local_shape = {4, 6}; }).find("shard"),
            std::string::npos);
  EXPECT_NE(with([](Binding &b, Program &) { b.dtype = fbs::DType::BF16; }).find("stored"),
            std::string::npos);
  EXPECT_NE(with([](Binding &b, Program &) { *b.ref = stepRef(kArena - 8); }).find("arena"),
            std::string::npos);
  EXPECT_NE(with([](Binding &, Program &p) {
              p.loss = std::make_unique<fbs::Ref>(stepRef(kArena));
            }).find("loss"), std::string::npos);
}
