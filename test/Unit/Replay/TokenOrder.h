// Which of a program's tokens a function's values need.
//
//   compute     w writes v    a signals t    b signals t
//   collective                                             waits t for c, which reads v
//
// c needs its wait. It needs neither signal alone: without b's it still comes behind a's, which
// comes behind w. Vector clocks say which instructions of other queues each one comes behind.
#pragma once

#include "dtc-rt/Program_generated.h"

#include <map>
#include <set>
#include <tuple>

namespace dtc::replay::test {

class TokenOrder {
public:
  explicit TokenOrder(const rt::fbs::ProgramT &program);

  /// Whether a value would be read too early if the instruction didn't wait for the token.
  bool needsWait(uint32_t function, size_t instruction, uint32_t token) const {
    return waits.contains({function, instruction, token});
  }
  /// The same if it didn't signal the token.
  bool needsSignal(uint32_t function, size_t instruction, uint32_t token) const {
    return signals.contains({function, instruction, token});
  }

private:
  using Place = std::tuple<uint32_t, size_t, uint32_t>; ///< function, instruction, token
  using Clock = std::map<int, int64_t>;                 ///< by queue: how many instructions
  struct Signal {
    Clock clock, before; ///< of this signal, and of the one before it
    Place place;
  };
  struct Write {
    int queue = 0;
    int64_t number = 0;
  };
  void call(const rt::fbs::FunctionT &function, uint32_t index);
  void wait(const rt::fbs::InstructionT &instruction, uint32_t index, size_t i,
            const std::map<uint32_t, Write> &writes);

  std::map<int, Clock> clocks; ///< by queue
  std::map<uint32_t, Signal> tokens;
  std::set<Place> waits, signals;
};

} // namespace dtc::replay::test
