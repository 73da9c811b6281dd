// What one class of ranks exchanges with others, and in which order. Recorded by
// RankReplay and compared between the classes once all are replayed.
#pragma once

#include "RankClasses.h"
#include "ProgramFacts.h"

#include <map>

namespace dtc::replay {

/// A send or receive.
struct Transfer {
  Site site;
  const fbs::MessageT *message = nullptr;
  std::vector<uint32_t> bindings; ///< by buffer
  uint32_t event = 0;
};

/// A collective of several classes.
struct GroupCall {
  Site site;
  const fbs::CollectiveT *op = nullptr;
  uint32_t event = 0;
};

/// An instruction that waits for others, or others for it.
struct Event {
  Site site;
  uint32_t queue = 0;
  std::vector<uint32_t> waits; ///< for these events
};

struct Traffic {
  const ProgramFacts *program = nullptr;
  std::vector<Event> events; ///< in the order of issue
  std::map<Channel, std::vector<Transfer>> sent, received;
  std::map<uint32_t, std::vector<GroupCall>> groupCalls; ///< by communicator
};

/// The n-th message sent on a channel is the n-th that is received there.
std::string compareMessages(const RankClasses &classes, const std::vector<Traffic> &traffic);

/// All members of a communicator make the same calls.
std::string compareGroupCalls(const RankClasses &classes, const std::vector<Traffic> &traffic);

/// Carries out all queues of all classes; messages and collectives wait for the others.
/// For traffic that passed both comparisons.
std::string findDeadlock(const RankClasses &classes, const std::vector<Traffic> &traffic);

} // namespace dtc::replay
