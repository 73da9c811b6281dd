// A role's program as the replay needs it: what its functions touch, looked up once.
#pragma once

#include "Accesses.h"

#include "dtc/Replay/ReplayPrograms.h"

namespace dtc::replay {

/// The step that only evaluates, between the two others.
inline constexpr uint32_t kEvaluation = 2;
/// "step 1", "evaluation"
std::string nameOfStep(uint32_t step);

/// An instruction of the replay: step 0, 1 or kEvaluation, index of the call, index in the
/// function.
struct Site {
  uint32_t step = 0, call = 0, instruction = 0;
};

/// What an argument or result is bound to.
struct Bound {
  uint32_t value = 0, binding = 0;
  bool isWhole = false; ///< the value is that of all microbatches of the binding
};

struct FunctionFacts : FunctionAccesses {
  std::vector<Bound> arguments, results;
  std::vector<uint32_t> messageBinding; ///< by value: the binding that a message carries, or ~0
  bool isPerMicrobatch = false;         ///< called for each microbatch
  /// Bindings that each microbatch's call adds to.
  std::vector<uint32_t> accumulators;
};

class ProgramFacts {
public:
  explicit ProgramFacts(const fbs::ProgramT &program) : program(program) {}

  /// Empty, or what is wrong with the program before anything is replayed.
  std::string prepare();

  const fbs::ProgramT &program;
  std::vector<FunctionFacts> functions;
  /// By function: itself, or the one for which it stands in the last microbatch.
  std::vector<uint32_t> familyOf;
  std::vector<uint64_t> bindingBytes;
  /// By token: how many events it has.
  std::vector<uint64_t> tokenEvents;

  uint32_t numMicrobatches() const { return program.num_microbatches; }
  const fbs::FunctionT &functionOf(const fbs::Call &call) const {
    return *program.functions[call.function()];
  }
  /// Of how many contents a binding has one at a time.
  uint32_t instances(uint32_t binding) const {
    return program.bindings[binding]->ref->scope() == fbs::Scope::Step ? 1 : numMicrobatches();
  }
  /// The content of a binding that a call means.
  uint32_t instanceOf(uint32_t binding, const fbs::Call &call) const {
    return instances(binding) == 1 ? 0 : call.microbatch();
  }

  /// How many calls an evaluation makes: up to the last one of a microbatch.
  size_t callsBeforeUpdate() const;
  /// Whether one of these calls gives the binding.
  bool isGivenEarly(uint32_t binding) const;

  /// "step 1: call 3 @backward (microbatch 1, slot 0)"
  std::string describeCall(uint32_t step, uint32_t call) const;
  std::string describe(const Site &site) const;
  /// "parameter 'w'"
  std::string describeBinding(uint32_t binding) const;

private:
  std::string checkSchedule() const;
  std::string findFamilies();
  std::string checkCallCounts() const;
  std::string prepareFunction(const fbs::FunctionT &function, FunctionFacts &facts);
  std::string checkIssue(const fbs::InstructionT &instruction) const;
  std::string bind(const fbs::FunctionT &function, const fbs::BoundValue &bound,
                   std::vector<Bound> &list) const;
  void findAccumulators(FunctionFacts &facts) const;

  fbs::Call largest; ///< the largest number of each kind
};

} // namespace dtc::replay
