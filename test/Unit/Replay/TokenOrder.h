// Which of a program's tokens say something that nothing else says.
//
//   compute     a signals t    b signals t    c
//   collective                                waits t for d    waits t for e
//
// Without a's signal d still waits for b, which comes behind a: only b's is heard. Without e's wait
// e still comes behind d: only d's is news.
#pragma once

#include "dtc-rt/Program_generated.h"

namespace dtc::replay::test {

class TokenOrder {
public:
  /// Of two steps; the program must outlive it.
  explicit TokenOrder(const rt::fbs::ProgramT &program);

  /// Whether another queue waits for the token before it is signalled again.
  bool isHeard(uint32_t function, size_t instruction, uint32_t token) const;
  /// Whether the queue hasn't waited yet since the token was last signalled.
  bool isNews(uint32_t function, size_t instruction, uint32_t token) const;

private:
  struct Event {
    uint32_t function;
    size_t instruction;
    uint32_t token;
    int queue;
    bool signals;
  };
  bool isAt(const Event &event, uint32_t function, size_t instruction, uint32_t token,
            bool signals) const;
  std::vector<Event> events; ///< in the order of the calls
};

} // namespace dtc::replay::test
