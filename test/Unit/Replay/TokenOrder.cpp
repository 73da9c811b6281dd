#include "TokenOrder.h"

namespace dtc::replay::test {

using namespace rt;

TokenOrder::TokenOrder(const fbs::ProgramT &program) {
  for (int step = 0; step < 2; ++step)
    for (const fbs::Call &call : program.schedule) {
      const auto &instructions = program.functions[call.function()]->instructions;
      for (size_t i = 0; i < instructions.size(); ++i) {
        for (uint32_t token : instructions[i]->waits)
          events.push_back({call.function(), i, token, instructions[i]->queue, false});
        for (uint32_t token : instructions[i]->signals)
          events.push_back({call.function(), i, token, instructions[i]->queue, true});
      }
    }
}

bool TokenOrder::isAt(const Event &event, uint32_t function, size_t instruction, uint32_t token,
                      bool signals) const {
  return event.function == function && event.instruction == instruction && event.token == token &&
         event.signals == signals;
}

bool TokenOrder::isHeard(uint32_t function, size_t instruction, uint32_t token) const {
  for (size_t at = 0; at < events.size(); ++at) {
    if (!isAt(events[at], function, instruction, token, true))
      continue;
    for (size_t next = at + 1; next < events.size(); ++next) {
      if (events[next].token != token)
        continue;
      if (events[next].signals)
        break;
      if (events[next].queue != events[at].queue)
        return true;
    }
  }
  return false;
}

bool TokenOrder::isNews(uint32_t function, size_t instruction, uint32_t token) const {
  for (size_t at = 0; at < events.size(); ++at) {
    if (!isAt(events[at], function, instruction, token, false))
      continue;
    bool known = false;
    for (size_t before = at; before-- > 0 && !known;) {
      if (events[before].token != token)
        continue;
      if (events[before].signals)
        break;
      known = events[before].queue == events[at].queue;
    }
    if (!known)
      return true;
  }
  return false;
}

} // namespace dtc::replay::test
