#include "Memory.h"

#include <gtest/gtest.h>

using namespace dtc::replay;

namespace {

/// Instructions of one queue, one after another.
class OneQueue : public testing::Test {
protected:
  Memory memory;
  Clock clock;

  Time next() { return {0, ++clock.ticks[0]}; }
  bool writes(uint64_t begin, uint64_t end, Content content) {
    return !memory.write(begin, end, content, next(), clock);
  }
  bool reads(uint64_t begin, uint64_t end, Content content) {
    return !memory.read(begin, end, content, next(), clock);
  }
};

} // namespace

TEST_F(OneQueue, ReadsWhatWasWritten) {
  EXPECT_TRUE(writes(100, 200, 1));
  EXPECT_TRUE(reads(100, 200, 1));
  EXPECT_TRUE(reads(150, 160, 1));
  EXPECT_FALSE(reads(100, 200, 2));
  EXPECT_FALSE(reads(99, 101, 1));
  EXPECT_FALSE(reads(199, 201, 1));
}

TEST_F(OneQueue, NothingLiesThereAtFirst) {
  auto fault = memory.read(0, 8, 1, next(), clock);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->cause, Fault::OtherContent);
  EXPECT_EQ(fault->found, 0u);
}

TEST_F(OneQueue, AWriteLeavesWhatIsAroundIt) {
  writes(0, 100, 1);
  writes(40, 60, 2);
  EXPECT_TRUE(reads(0, 40, 1));
  EXPECT_TRUE(reads(40, 60, 2));
  EXPECT_TRUE(reads(60, 100, 1));
  auto fault = memory.read(0, 100, 1, next(), clock);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->found, 2u);
  EXPECT_EQ(fault->address, 40u);
}

TEST_F(OneQueue, AWriteCoversSeveralSegments) {
  writes(0, 10, 1);
  writes(10, 20, 2);
  writes(30, 40, 3);
  writes(5, 35, 4);
  EXPECT_TRUE(reads(0, 5, 1));
  EXPECT_TRUE(reads(5, 35, 4));
  EXPECT_TRUE(reads(35, 40, 3));
}

TEST_F(OneQueue, ReadsAcrossSegmentsOfOneContent) {
  writes(0, 10, 1);
  writes(10, 20, 1);
  EXPECT_TRUE(reads(5, 15, 1));
}

TEST_F(OneQueue, OperandsAndResultsOfAnInstruction) {
  writes(0, 10, 1);
  Time now = next();
  EXPECT_FALSE(memory.read(0, 10, 1, now, clock));
  EXPECT_EQ(memory.write(0, 10, 2, now, clock)->cause, Fault::OwnOperand);
  EXPECT_EQ(memory.write(0, 5, 2, now, clock, 5)->cause, Fault::OwnOperand);
  EXPECT_FALSE(memory.write(0, 10, 2, now, clock, 10));
  EXPECT_EQ(memory.write(5, 15, 3, now, clock, 10)->cause, Fault::OwnResult);
}

TEST_F(OneQueue, OfAnOperandThatAPartReplacesNothingIsLeft) {
  writes(0, 10, 1);
  writes(10, 20, 2);
  Time now = next();
  EXPECT_FALSE(memory.read(0, 10, 1, now, clock));
  EXPECT_EQ(memory.write(0, 4, 3, now, clock, 8)->cause, Fault::OwnOperand);
  EXPECT_EQ(memory.write(2, 4, 3, now, clock, 10)->cause, Fault::OwnOperand);
  EXPECT_FALSE(memory.write(0, 4, 3, now, clock, 10));
  EXPECT_TRUE(reads(0, 4, 3));
  EXPECT_FALSE(reads(4, 10, 1));
  EXPECT_FALSE(reads(4, 5, 3));
  EXPECT_TRUE(reads(10, 20, 2));
}

TEST(Queues, AccessesOfDifferentQueuesNeedAnOrder) {
  Memory memory;
  Clock first, second;
  first.ticks[0] = 1;
  EXPECT_FALSE(memory.write(0, 10, 1, {0, 1}, first));
  second.ticks[1] = 1;
  EXPECT_EQ(memory.read(0, 10, 1, {1, 1}, second)->cause, Fault::UnorderedWrite);
  EXPECT_EQ(memory.write(0, 10, 2, {1, 1}, second)->cause, Fault::UnorderedWrite);
  second.join(first); // waits
  EXPECT_FALSE(memory.read(0, 10, 1, {1, 1}, second));
  first.ticks[0] = 2;
  EXPECT_EQ(memory.write(0, 10, 2, {0, 2}, first)->cause, Fault::UnorderedRead);
  first.join(second);
  EXPECT_FALSE(memory.write(0, 10, 2, {0, 2}, first));
}
