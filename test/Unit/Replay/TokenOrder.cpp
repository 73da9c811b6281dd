#include "TokenOrder.h"

#include <algorithm>
#include <optional>

namespace dtc::replay::test {

using namespace rt;

TokenOrder::TokenOrder(const fbs::ProgramT &program) {
  for (int step = 0; step < 2; ++step)
    for (const fbs::Call &each : program.schedule)
      call(*program.functions[each.function()], each.function());
}

void TokenOrder::call(const fbs::FunctionT &function, uint32_t index) {
  std::map<uint32_t, Write> writes; ///< by value
  for (size_t i = 0; i < function.instructions.size(); ++i) {
    const fbs::InstructionT &instruction = *function.instructions[i];
    wait(instruction, index, i, writes);
    Clock &clock = clocks[instruction.queue];
    int64_t number = ++clock[instruction.queue];
    for (uint32_t value : instruction.writes)
      writes[value] = {instruction.queue, number};
    for (uint32_t token : instruction.signals)
      tokens[token] = {clock, tokens[token].clock, {index, i, token}};
  }
}

void TokenOrder::wait(const fbs::InstructionT &instruction, uint32_t index, size_t i,
                      const std::map<uint32_t, Write> &writes) {
  auto joinOthers = [&](std::optional<uint32_t> left) {
    Clock joined = clocks[instruction.queue];
    for (uint32_t token : instruction.waits)
      if (token != left)
        for (auto [queue, number] : tokens[token].clock)
          joined[queue] = std::max(joined[queue], number);
    return joined;
  };
  for (uint32_t token : instruction.waits) {
    Clock without = joinOthers(token);
    Signal &signal = tokens[token];
    for (uint32_t value : instruction.reads) {
      auto write = writes.find(value);
      if (write == writes.end() || write->second.number <= without[write->second.queue])
        continue;
      waits.insert({index, i, token});
      if (write->second.number > signal.before[write->second.queue])
        signals.insert(signal.place);
    }
  }
  clocks[instruction.queue] = joinOthers(std::nullopt);
}

} // namespace dtc::replay::test
