#include "Tokens.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace dtc::lower {
namespace {

namespace fbs = rt::fbs;
using Instructions = std::vector<std::unique_ptr<fbs::InstructionT>>;
constexpr uint8_t kCompute = 0;

void addOnce(std::vector<uint32_t> &list, uint32_t token) {
  if (std::find(list.begin(), list.end(), token) == list.end())
    list.push_back(token);
}

bool isBox(fbs::Scope scope) {
  return scope == fbs::Scope::Inbox || scope == fbs::Scope::Outbox;
}

/// What one function does on one queue in a place of the inbox or outbox.
struct Access {
  fbs::InstructionT *first = nullptr, *last = nullptr;
  bool writes = false;
  std::optional<uint32_t> token;
};

class TokenBuilder {
public:
  explicit TokenBuilder(fbs::ProgramT &program) : program(program) {}

  void run(const std::vector<std::vector<Arrival>> &arrivals) {
    for (size_t i = 0; i < program.functions.size(); ++i)
      addWithin(*program.functions[i], arrivals[i]);
    if (computed)
      for (auto &function : program.functions)
        signalEnd(*function);
    for (size_t i = 0; i < program.functions.size(); ++i)
      findAccesses(i);
    connectAccesses();
  }

private:
  uint32_t make(fbs::Scope scope) {
    program.tokens.push_back(scope);
    return static_cast<uint32_t>(program.tokens.size() - 1);
  }

  uint32_t computedToken() {
    if (!computed)
      computed = make(fbs::Scope::Step);
    return *computed;
  }

  static bool touches(const fbs::FunctionT &function, const fbs::InstructionT &instruction,
                      bool box) {
    auto is = [&](uint32_t value) { return isBox(function.values[value].ref().scope()) == box; };
    return std::any_of(instruction.reads.begin(), instruction.reads.end(), is) ||
           std::any_of(instruction.writes.begin(), instruction.writes.end(), is);
  }

  /// A message between places that outlive the call, for which others wait there.
  static bool staysInFlight(const fbs::FunctionT &function,
                            const fbs::InstructionT &instruction) {
    return instruction.op.AsMessage() && !touches(function, instruction, /*box=*/false);
  }

  void addWithin(fbs::FunctionT &function, const std::vector<Arrival> &arrivals) {
    struct Flight {
      uint32_t token;
      uint8_t queue;
    };
    std::map<uint32_t, Flight> started;   // values in flight
    std::vector<uint32_t> open;           // tokens that nothing has waited for yet
    std::vector<uint32_t> arrived;        // waited for, by what is computed next
    fbs::InstructionT *lastComputed = nullptr;
    auto next = arrivals.begin();
    auto arrive = [&](size_t position) {
      for (; next != arrivals.end() && next->before <= position; ++next)
        if (auto known = started.find(next->value); known != started.end()) {
          addOnce(arrived, known->second.token);
          std::erase(open, known->second.token);
        }
    };
    for (size_t i = 0; i < function.instructions.size(); ++i) {
      fbs::InstructionT &instruction = *function.instructions[i];
      arrive(i);
      if (instruction.queue == kCompute) {
        for (uint32_t token : std::exchange(arrived, {}))
          addOnce(instruction.waits, token);
        lastComputed = &instruction;
        continue;
      }
      if (staysInFlight(function, instruction))
        continue;
      addOnce(instruction.waits, computedToken());
      if (lastComputed)
        addOnce(lastComputed->signals, computedToken());
      for (uint32_t token : arrived)
        addOnce(instruction.waits, token);
      for (uint32_t value : instruction.reads)
        if (auto known = started.find(value);
            known != started.end() && known->second.queue != instruction.queue)
          addOnce(instruction.waits, known->second.token);
      uint32_t token = make(fbs::Scope::Step);
      instruction.signals.push_back(token);
      open.push_back(token);
      for (uint32_t value : instruction.writes)
        started[value] = {token, instruction.queue};
    }
    arrive(function.instructions.size());
    arrived.insert(arrived.end(), open.begin(), open.end());
    if (!arrived.empty())
      appendJoin(function, std::move(arrived));
  }

  /// An instruction that does nothing but wait: it clears no bytes.
  static void appendJoin(fbs::FunctionT &function, std::vector<uint32_t> waits) {
    fbs::ZeroT zero;
    zero.target = std::make_unique<fbs::Ref>();
    auto join = std::make_unique<fbs::InstructionT>();
    join->op.Set(std::move(zero));
    join->name = "join";
    join->writes = {static_cast<uint32_t>(function.values.size())};
    function.values.emplace_back();
    join->waits = std::move(waits);
    function.instructions.push_back(std::move(join));
  }

  /// What the next function starts follows all that this one computes.
  void signalEnd(fbs::FunctionT &function) {
    for (auto it = function.instructions.rbegin(); it != function.instructions.rend(); ++it)
      if ((*it)->queue == kCompute) {
        addOnce((*it)->signals, *computed);
        return;
      }
  }

  /// The binding in whose place a value lies.
  std::optional<size_t> boxOf(const fbs::Value &value) const {
    if (!isBox(value.ref().scope()))
      return std::nullopt;
    for (size_t i = 0; i < program.bindings.size(); ++i) {
      const fbs::Ref &place = *program.bindings[i]->ref;
      if (place.scope() == value.ref().scope() && place.space() == value.ref().space() &&
          value.ref().offset() >= place.offset() &&
          value.ref().offset() < place.offset() + std::max<uint64_t>(sizes[i], 1))
        return i;
    }
    return std::nullopt;
  }

  void findAccesses(size_t index) {
    fbs::FunctionT &function = *program.functions[index];
    findSizes(function);
    for (auto &instruction : function.instructions)
      for (bool writes : {false, true})
        for (uint32_t value : writes ? instruction->writes : instruction->reads)
          if (auto box = boxOf(function.values[value])) {
            Access &access = accesses[*box][{index, instruction->queue}];
            if (!access.first)
              access.first = instruction.get();
            access.last = instruction.get();
            access.writes |= writes;
          }
  }

  /// Bytes of boxes, as arguments and results say.
  void findSizes(const fbs::FunctionT &function) {
    sizes.resize(program.bindings.size(), 0);
    for (const auto *list : {&function.arguments, &function.results})
      for (const fbs::BoundValue &bound : *list)
        sizes[bound.binding()] =
            std::max(sizes[bound.binding()], function.values[bound.value()].bytes());
  }

  void connectAccesses() {
    for (auto &[box, users] : accesses)
      for (auto &[user, access] : users)
        for (auto &[other, before] : users)
          if (user.second != other.second && (access.writes || before.writes))
            waitFor(access, before, program.bindings[box]->ref->scope());
  }

  void waitFor(Access &access, Access &before, fbs::Scope scope) {
    if (!before.token) {
      before.token = make(scope);
      before.last->signals.push_back(*before.token);
    }
    addOnce(access.first->waits, *before.token);
  }

  fbs::ProgramT &program;
  std::optional<uint32_t> computed;
  std::vector<uint64_t> sizes;
  /// By binding, then by function and queue.
  std::map<size_t, std::map<std::pair<size_t, uint8_t>, Access>> accesses;
};

} // namespace

void addTokens(fbs::ProgramT &program, const std::vector<std::vector<Arrival>> &arrivals) {
  TokenBuilder(program).run(arrivals);
}

} // namespace dtc::lower
