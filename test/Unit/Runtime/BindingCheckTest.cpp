// Bindings that don't match the manifest, or lie where they can't, are refused at load.
#include "ProgramCheck.h"

#include <functional>

using namespace dtc::rt;
using namespace dtc::rt::test;

TEST(ProgramCheck, InputsAreBatches) {
  Json manifest = meshOf4();
  manifest["global_batch"] = 8;
  manifest["inputs"].push_back(
      {{"name", "x"}, {"dtype", "F32"}, {"shape", {4, 3}}, {"limit", nullptr}});
  auto with = [&](uint32_t microbatches, std::function<void(fbs::BindingT &)> change) {
    fbs::ProgramT program = emptyProgram(manifest, kArena);
    program.num_microbatches = microbatches;
    auto binding = bindingOf(fbs::BindingKind::Input, "x", 0, {4, 3}, {2, 3}, {{0}});
    *binding->ref = scopeRef(fbs::Scope::Microbatch, 0, 64);
    change(*binding);
    program.bindings.push_back(std::move(binding));
    return check(program, manifest);
  };
  EXPECT_EQ(with(2, [](fbs::BindingT &) {}), "");
  for (uint32_t microbatches : {1, 4}) {
    std::string message = with(microbatches, [](fbs::BindingT &) {});
    EXPECT_NE(message.find("batch of a microbatch: 4x3"), std::string::npos) << message;
  }
  auto refused = [&](const std::string &word, std::function<void(fbs::BindingT &)> change) {
    std::string message = with(2, change);
    EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
  };
  refused("out of the arena", [](fbs::BindingT &b) {
    *b.ref = scopeRef(fbs::Scope::Microbatch, 64, kArena - 64); // the second microbatch
  });
  refused("neither", [](fbs::BindingT &b) { *b.ref = scopeRef(fbs::Scope::Slot, 0, 64); });
  refused("unknown input", [](fbs::BindingT &b) { b.name = "y"; });
  refused("unknown input", [](fbs::BindingT &b) { b.dtype = fbs::DType::Bool; });
  refused("not of the manifest's shape", [](fbs::BindingT &b) {
    b.shape = {8, 3};
    b.local_shape = {4, 3};
  });
  refused("bucket", [](fbs::BindingT &b) {
    b.placement->flat_axes = {1};
    b.placement->bucket_elements = 6;
    b.local_shape = {3};
  });
}

namespace {

Json oneParameter() {
  Json manifest = meshOf4();
  manifest["parameters"].push_back({{"name", "w"},
                                    {"aliases", Json::array()},
                                    {"dtype", "F32"},
                                    {"shape", {4, 6}},
                                    {"view", nullptr},
                                    {"trainable", true},
                                    {"storage_dtype", "F32"},
                                    {"init", nullptr}});
  return manifest;
}

/// What is wrong with a binding of the parameter, divided by tp, after a change.
std::string withBinding(std::function<void(fbs::BindingT &, fbs::ProgramT &)> change) {
  Json manifest = oneParameter();
  fbs::ProgramT program = emptyProgram(manifest, kArena);
  auto binding = bindingOf(fbs::BindingKind::Parameter, "w", 0, {4, 6}, {2, 6}, {{1}});
  change(*binding, program);
  program.bindings.push_back(std::move(binding));
  return check(program, manifest);
}

} // namespace

TEST(ProgramCheck, Bindings) {
  using Binding = fbs::BindingT;
  using Program = fbs::ProgramT;
  using fbs::BindingKind;
  EXPECT_EQ(withBinding([](Binding &, Program &) {}), "");
  auto refused = [](const std::string &word, std::function<void(Binding &, Program &)> change) {
    std::string message = withBinding(change);
    EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
  };
  refused("unknown parameter", [](Binding &b, Program &) { b.name = "u"; });
  refused("the part of 4x6", [](Binding &b, Program &) { b.local_shape = {4, 6}; });
  refused("stored", [](Binding &b, Program &) { b.dtype = fbs::DType::BF16; });
  refused("element type", [](Binding &b, Program &) { b.dtype = fbs::DType(50); });
  refused("kind", [](Binding &b, Program &) { b.kind = BindingKind(77); });
  refused("arena", [](Binding &b, Program &) { *b.ref = stepRef(kArena - 8); });
  refused("all of a step",
          [](Binding &b, Program &) { *b.ref = scopeRef(fbs::Scope::Slot, 0, 64); });
  refused("parameter's shape", [](Binding &b, Program &) {
    b.shape = {6, 4};
    b.local_shape = {3, 4};
  });
  refused("twice: w",
          [](Binding &b, Program &p) { p.bindings.push_back(std::make_unique<Binding>(b)); });
  EXPECT_EQ(withBinding([](Binding &b, Program &p) { // another kind is another binding
              p.bindings.push_back(std::make_unique<Binding>(b));
              p.bindings[0]->kind = BindingKind::Master;
            }),
            "");
  auto scalar = [&](const std::string &word, BindingKind kind,
                    std::function<void(Binding &)> change) {
    std::string message = withBinding([&](Binding &, Program &p) {
      p.bindings.push_back(bindingOf(kind, "", 512, {}, {}));
      change(*p.bindings.back());
    });
    EXPECT_NE(message.find(word), std::string::npos) << message;
    EXPECT_EQ(message.empty(), word.empty()) << message;
  };
  scalar("", BindingKind::Loss, [](Binding &) {});
  scalar("Loss: reaches out of the arena", BindingKind::Loss,
         [](Binding &b) { *b.ref = stepRef(kArena); });
  scalar("single float", BindingKind::GradNorm, [](Binding &b) { b.dtype = fbs::DType::F64; });
  scalar("", BindingKind::LearningRate, [](Binding &b) { b.dtype = fbs::DType::F64; });
  scalar("single float", BindingKind::StepNumber, [](Binding &b) { b.dtype = fbs::DType::I32; });
  scalar("single float", BindingKind::Loss,
         [](Binding &b) { b = *bindingOf(BindingKind::Loss, "", 512, {2}, {2}); });
}

TEST(ProgramCheck, Placements) {
  using Binding = fbs::BindingT;
  auto refused = [](const std::string &word, std::function<void(Binding &)> change) {
    std::string message = withBinding([&](Binding &b, fbs::ProgramT &) { change(b); });
    EXPECT_EQ(message.empty(), word.empty()) << message;
    EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
  };
  refused("mesh axis", [](Binding &b) { b.placement->dims[0]->axes = {2}; });
  refused("mesh axis", [](Binding &b) { b.placement->dims[0]->axes = {-1}; });
  refused("mesh axis", [](Binding &b) { b.placement->dims[1]->axes = {1}; });
  refused("mesh axis", [](Binding &b) { b.placement->flat_axes = {1}; });
  refused("mesh axis", [](Binding &b) { b.placement->partial_axes = {1}; });
  refused("", [](Binding &b) { b.placement->partial_axes = {0}; });
  refused("impossible shape", [](Binding &b) { b.placement->dims.pop_back(); });
  refused("impossible shape", [](Binding &b) { b.shape = {int64_t(1) << 40, int64_t(1) << 40}; });
  refused("does not divide", [](Binding &b) { b.shape = {3, 6}; });
  auto flat = [](Binding &b, uint64_t offset, uint64_t elements) {
    b.placement->flat_axes = {0};
    b.placement->bucket_offset = offset;
    b.placement->bucket_elements = elements;
    b.local_shape = {static_cast<int64_t>(elements / 2)};
  };
  refused("", [&](Binding &b) { flat(b, 4, 16); });
  refused("place in a bucket: 5 of 16", [&](Binding &b) { flat(b, 5, 16); });
  refused("place in a bucket", [&](Binding &b) { flat(b, 4, 17); });
  refused("place in a bucket", [&](Binding &b) { flat(b, ~0ull, 16); });
  refused("place in a bucket", [&](Binding &b) { flat(b, 0, ~0ull - 1); });
  refused("the part of", [&](Binding &b) {
    flat(b, 4, 16);
    b.local_shape = {16};
  });
  refused("arena", [&](Binding &b) { flat(b, 0, 4096); });
}
