// Finds the places of a program where a fault of each kind can be planted.
#pragma once

#include "Edit.h"
#include "Mutants.h"
#include "TokenOrder.h"

#include <algorithm>

namespace dtc::replay::test {

using fbs::BindingKind;
using fbs::Scope;

/// When a value of a function is written and read, by instruction.
struct Life {
  int first = -1, last = -1;
  bool isBound = false; ///< an argument or result
};

class MutantMaker {
public:
  MutantMaker(const Role &role, size_t index, size_t most, std::vector<Mutant> &out)
      : program(*role.program), own(role.ranks[0]), ranks(role.ranks.size()), role(index),
        most(most), out(out), tokens(program) {
    for (const auto &function : program.functions)
      for (const auto &instruction : function->instructions)
        leavesOut = leavesOut || instruction->training_only;
  }

  void run() {
    calls();
    for (uint32_t i = 0; i < program.functions.size(); ++i)
      functionFaults(i);
    bindings();
    wrongBuckets();
    messages();
    thin();
  }

private:
  using Plant = std::function<void(fbs::ProgramT &)>;

  void add(const std::string &kind, const std::string &place, Plant plant) {
    made.push_back({kind, "role " + std::to_string(role) + ": " + place, role, std::move(plant)});
  }

  std::string nameOf(const fbs::Call &call) const {
    return "@" + program.functions[call.function()]->name + " m" +
           std::to_string(call.microbatch());
  }

  bool hasScope(const fbs::Call &call, Scope scope) const {
    return std::ranges::any_of(program.functions[call.function()]->values,
                               [&](const fbs::Value &v) { return v.ref().scope() == scope; });
  }

  /// Calls that say only by numbers which activation or message they mean.
  bool usesPlaces(const fbs::Call &call) const {
    return hasScope(call, Scope::Slot) || hasScope(call, Scope::Inbox) ||
           hasScope(call, Scope::Outbox);
  }

  /// Calls of one function that runs for each microbatch, or of that which stands for it in the
  /// last.
  bool areAlike(const fbs::Call &a, const fbs::Call &b) const {
    auto family = [&](const fbs::Call &call) {
      const int32_t lastOf = program.functions[call.function()]->last_of;
      return lastOf < 0 ? call.function() : static_cast<uint32_t>(lastOf);
    };
    return program.functions[a.function()]->per_microbatch && family(a) == family(b);
  }

  /// Something of this step that one call computes and the other needs.
  bool feeds(const fbs::Call &from, const fbs::Call &to) const {
    for (const fbs::BoundValue &result : program.functions[from.function()]->results)
      for (const fbs::BoundValue &argument : program.functions[to.function()]->arguments) {
        const fbs::BindingT &binding = *program.bindings[result.binding()];
        if (result.binding() == argument.binding() && binding.kind != BindingKind::Parameter &&
            binding.kind != BindingKind::Buffer && binding.kind != BindingKind::State &&
            binding.kind != BindingKind::Master &&
            (binding.ref->scope() == Scope::Step || from.microbatch() == to.microbatch()))
          return true;
      }
    return false;
  }

  /// Whether a place of an inbox or outbox serves several microbatches; else no wait for an
  /// empty place is needed.
  bool reusesPlaces() const {
    uint32_t places = 0;
    for (const fbs::Call &call : program.schedule)
      places = std::max({places, call.inbox() + 1, call.outbox() + 1});
    return program.num_microbatches > places;
  }

  bool sendsMessages() const {
    return std::ranges::any_of(program.schedule, [&](const fbs::Call &call) {
      return hasScope(call, Scope::Inbox) || hasScope(call, Scope::Outbox);
    });
  }

  bool touchesMessage(const fbs::FunctionT &function, const std::vector<uint32_t> &values) const {
    return std::ranges::any_of(values, [&](uint32_t value) {
      Scope scope = function.values[value].ref().scope();
      return scope == Scope::Inbox || scope == Scope::Outbox;
    });
  }

  void calls();
  void numbersOfCalls(size_t i, size_t j);
  void functionFaults(uint32_t index);
  void dropInstruction(uint32_t index, size_t i, const std::string &place);
  void operandFaults(uint32_t index, size_t i, const std::string &place);
  void staleReads(uint32_t index, size_t i, const std::string &place,
                  const std::vector<Life> &lives);
  Plant move(uint32_t index, uint32_t moved, uint32_t over) const;
  void earlyReuse(uint32_t index, const std::vector<Life> &lives);
  void queueFaults(uint32_t index, size_t i, const std::string &place);
  void collectiveFaults(uint32_t index, size_t i, const std::string &place);
  void partFaults(uint32_t index, size_t i, const std::string &place);
  void bindings();
  void wrongBuckets();
  void messages();
  void thin();

  const fbs::ProgramT &program;
  int32_t own; ///< a rank of the role
  size_t ranks, role, most;
  std::vector<Mutant> &out;
  TokenOrder tokens;
  bool leavesOut = false; ///< an evaluation leaves out what it needn't
  std::vector<Mutant> made;
};

} // namespace dtc::replay::test
