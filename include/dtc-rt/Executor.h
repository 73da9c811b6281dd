// Executes a rank's program on its device. The functions' instructions are issued in the order of
// the schedule, each to its queue, with waits for and signals of tokens.
//
// Instructions are prepared once; a step then walks through lists of them. What an
// address depends on is a number of the call (microbatch, slot, inbox, outbox):
//
//   call {f, microbatch 3, slot 1}     ref {offset 4096, stride 512, Slot} -> 4096 + 1 * 512
//                                      token of the scope Microbatch       -> its event 3
#pragma once

#include "dtc-rt/Device.h"
#include "dtc-rt/Program/ProgramView.h"

#include <array>

namespace dtc::rt {

/// Calls of the schedule that come before those that take the sums over all microbatches.
size_t callsBeforeUpdate(const fbs::Program &program);

/// What is issued of a step. An evaluation has the calls in front of the update, without the ops
/// that only training needs.
enum class StepPart : uint8_t { All, Evaluation };

/// Of a rank. Outlives the executor.
struct RankContext {
  ProgramView program;
  Device &device;
  int rank = 0;        ///< in the world
  size_t position = 0; ///< in the role
  Address arena = nullptr, hostArena = nullptr;
};

class Executor {
public:
  /// Makes the device's queues. Call on the rank's thread, as all of this.
  static Result<Executor> create(const RankContext &context);

  /// Issues one step, or a part of it. It begins when what was issued to the compute queue before
  /// is done, and what is issued there afterwards begins when the step is done.
  Status issueStep(StepPart part = StepPart::All);
  Queue &computeQueue() { return *queues.front(); }
  /// Waits until all that was issued is done.
  Status synchronize();

private:
  /// The numbers of a call, by scope.
  using Numbers = std::array<uint32_t, static_cast<size_t>(fbs::Scope::MAX) + 1>;

  struct Place {
    Address start;
    uint64_t stride;
    fbs::Scope scope;
  };
  /// One event for each number of its scope.
  struct Token {
    fbs::Scope scope;
    std::vector<std::unique_ptr<Event>> events;
  };
  /// Places and tokens are ranges of `places` and `tokenIndices`.
  struct Instruction {
    std::unique_ptr<Operation> operation; ///< null: the rank takes no part
    Queue *queue;
    size_t firstPlace, numPlaces;
    size_t firstToken, numWaits, numSignals;
    bool isTrainingOnly;
  };

  explicit Executor(const RankContext &context) : context(context) {}
  Status createQueues();
  void createTokens();
  Result<Instruction> prepare(const fbs::Instruction &given);
  Place placeOf(const fbs::Ref &ref) const;
  Status issue(const Instruction &instruction, const Numbers &numbers, StepPart part);
  Status issueCalls(size_t count, StepPart part);
  Event &event(size_t token, const Numbers &numbers) {
    Token &known = tokens[token];
    return *known.events[numbers[static_cast<size_t>(known.scope)]];
  }
  static Numbers numbersOf(const fbs::Call &call);

  RankContext context;
  std::vector<Token> tokens;
  std::vector<Place> places;
  std::vector<uint32_t> tokenIndices;
  std::vector<Address> addresses; ///< of the instruction that is being issued
  std::vector<std::vector<Instruction>> functions;
  std::unique_ptr<Event> begun;              ///< the step, for the other queues
  std::vector<std::unique_ptr<Event>> ended; ///< by queue
  int64_t stepsIssued = 0;
  std::unique_ptr<Operation> recorded;        ///< a step; null where it is issued call by call
  std::vector<std::unique_ptr<Queue>> queues; ///< destroyed first: they may be at work
};

} // namespace dtc::rt
