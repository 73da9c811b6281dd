// Operations of streams that share a hardware queue hold each other up.
#include "Emulator/Device/HardwareQueue.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace dtc::emulator::test {
namespace {

TEST(HardwareQueueTest, WhatLiesBehindWaits) {
  std::promise<void> gate;
  std::vector<int> order;
  {
    HardwareQueue one, other;
    one.submit([&] {
      gate.get_future().wait();
      order.push_back(2);
    });
    one.submit([&] { order.push_back(3); });
    other.submit([&] {
      order.push_back(1);
      gate.set_value();
    });
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

} // namespace
} // namespace dtc::emulator::test
