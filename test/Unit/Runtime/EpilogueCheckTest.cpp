// What a program may say of a product's epilogue.
#include "ProgramCheck.h"

#include <functional>

using namespace dtc::rt;
using namespace dtc::rt::test;
using enum fbs::Epilogue;

namespace {

using Change = std::function<void(fbs::MatmulT &)>;

/// A product of 4x8 and 8x2 after a change, for a target.
std::string after(const Change &change, const char *target = "cuda") {
  Json manifest = meshOf4();
  manifest["target"] = target;
  fbs::ProgramT program = emptyProgram(manifest, kArena);
  fbs::MatmulT op;
  op.a = tensorAt(0, {4, 8});
  op.b = tensorAt(256, {8, 2});
  op.c = tensorAt(512, {4, 2});
  change(addInstruction(program, std::move(op)));
  return check(program, manifest);
}

/// With its vector and its matrix at these places; none where they are below 0.
std::string with(fbs::Epilogue epilogue, int64_t vector, int64_t matrix) {
  return after([=](fbs::MatmulT &op) {
    op.epilogue = epilogue;
    if (vector >= 0)
      op.vector = std::make_unique<fbs::Ref>(stepRef(uint64_t(vector)));
    if (matrix >= 0)
      op.matrix = std::make_unique<fbs::Ref>(stepRef(uint64_t(matrix)));
  });
}

void expectSaid(const std::string &message, const char *word) {
  EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
}

TEST(EpilogueCheck, HasItsOperands) {
  for (fbs::Epilogue epilogue : {Bias, BiasGelu, SumA, SumB})
    EXPECT_EQ(with(epilogue, 0, -1), "");
  EXPECT_EQ(with(Gelu, -1, -1), "");
  EXPECT_EQ(with(Gelu, -1, 0), "");
  EXPECT_EQ(with(BiasGelu, 0, 64), "");
  EXPECT_EQ(with(GeluGrad, -1, 0), "");
  expectSaid(with(None, 0, -1), "more or fewer operands");
  expectSaid(with(None, -1, 0), "more or fewer operands");
  expectSaid(with(Bias, -1, -1), "more or fewer operands");
  expectSaid(with(Bias, 0, 0), "more or fewer operands");
  expectSaid(with(Gelu, 0, -1), "more or fewer operands");
  expectSaid(with(GeluGrad, -1, -1), "more or fewer operands");
  expectSaid(with(fbs::Epilogue(99), -1, -1), "unknown epilogue");
}

TEST(EpilogueCheck, OperandsLieInTheArena) {
  // A bias has two numbers, a sum over rows of a four, the matrix eight.
  EXPECT_EQ(with(Bias, kArena - 8, -1), "");
  EXPECT_EQ(with(SumA, kArena - 16, -1), "");
  expectSaid(with(Bias, kArena - 4, -1), "out of the arena");
  expectSaid(with(SumA, kArena - 12, -1), "out of the arena");
  expectSaid(with(GeluGrad, -1, kArena - 28), "out of the arena");
  expectSaid(with(GeluGrad, -1, 2), "not aligned");
}

TEST(EpilogueCheck, IsOfAMatrixOnAGpu) {
  expectSaid(after([](fbs::MatmulT &op) { op.epilogue = Gelu; }, "cpu"), "epilogue of a GPU");
  expectSaid(after([](fbs::MatmulT &op) {
               op.epilogue = Gelu;
               op.c->strides = {1, 4};
             }),
             "row-major matrix");
  expectSaid(after([](fbs::MatmulT &op) {
               op.epilogue = Gelu;
               op.a = tensorAt(0, {1, 4, 8});
               op.b = tensorAt(256, {1, 8, 2});
               op.c = tensorAt(512, {1, 4, 2});
             }),
             "row-major matrix");
}

TEST(EpilogueCheck, AddsATensorThatLiesAsTheResult) {
  auto added = [](uint64_t place, fbs::Epilogue epilogue, const char *target = "cuda") {
    return after(
        [=](fbs::MatmulT &op) {
          op.addend = std::make_unique<fbs::Ref>(stepRef(place));
          op.epilogue = epilogue;
          if (epilogue != None)
            op.vector = std::make_unique<fbs::Ref>(stepRef(1024));
        },
        target);
  };
  for (fbs::Epilogue epilogue : {None, SumA, SumB})
    EXPECT_EQ(added(kArena - 32, epilogue), "");
  expectSaid(added(kArena - 28, None), "out of the arena");
  expectSaid(added(2, None), "not aligned");
  expectSaid(added(0, Bias), "beside its epilogue: Bias");
  expectSaid(added(0, None, "cpu"), "as GPUs do");
}

} // namespace
