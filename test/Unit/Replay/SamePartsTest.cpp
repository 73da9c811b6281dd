#include "SameParts.h"

#include <gtest/gtest.h>

using namespace dtc;
using namespace dtc::replay;

namespace {

rt::fbs::Ref at(uint64_t offset) {
  return {offset, 0, rt::fbs::Scope::Step, rt::fbs::Space::Device};
}

/// A parameter of 100 elements of 2 bytes at 0, and its state of 4 bytes at 1000.
class SameParts : public testing::Test {
protected:
  SameParts() {
    for (uint64_t bytes : {200, 400})
      addValue(bytes == 200 ? 0 : 1000, bytes);
  }

  uint32_t addValue(uint64_t offset, uint64_t bytes) {
    function.values.emplace_back(at(offset), bytes);
    return function.values.size() - 1;
  }

  template <typename T> rt::fbs::InstructionT &add(T op) {
    auto &entry = function.instructions.emplace_back(std::make_unique<rt::fbs::InstructionT>());
    entry->op.Set(std::move(op));
    return *entry;
  }

  void copy(uint32_t from, uint64_t fromOffset, uint32_t to, uint64_t toOffset, uint64_t bytes) {
    rt::fbs::CopyT op;
    op.source = std::make_unique<rt::fbs::Ref>(at(fromOffset));
    op.target = std::make_unique<rt::fbs::Ref>(at(toOffset));
    op.bytes = bytes;
    rt::fbs::InstructionT &entry = add(std::move(op));
    entry.reads = {from};
    entry.writes = {to};
  }

  /// Of 60 elements each from these on, with the result from an element of the new state on.
  std::string update(uint64_t parameter, uint64_t state, uint64_t result) {
    const uint32_t p = addValue(2000, 120), m = addValue(3000, 240), made = addValue(3000, 240);
    copy(0, parameter * 2, p, 2000, 120);
    copy(1, 1000 + state * 4, m, 3000, 240);
    rt::fbs::InstructionT &launch = add(rt::fbs::LaunchT());
    launch.reads = {p, m};
    launch.writes = {made};
    copy(made, 3000, addValue(1000, 400), 1000 + result * 4, 240);
    return checkSameParts(function);
  }

  rt::fbs::FunctionT function;
};

} // namespace

TEST_F(SameParts, AreThoseOfTheSameElements) { EXPECT_EQ(update(40, 40, 40), ""); }

TEST_F(SameParts, AKernelReadsNoOthers) {
  EXPECT_EQ(update(40, 0, 40), "instruction 2 Launch: has other parts of its tensors than of one");
}

TEST_F(SameParts, AResultGoesNowhereElse) {
  EXPECT_EQ(update(40, 40, 0), "instruction 3 Copy: has other parts of its tensors than of one");
}

TEST_F(SameParts, AWholeIsNoPart) {
  const uint32_t made = addValue(3000, 240);
  copy(made, 3000, 1, 1000, 240);
  EXPECT_NE(checkSameParts(function), "");
}
