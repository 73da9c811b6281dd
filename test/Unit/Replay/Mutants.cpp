#include "Mutants.h"

#include "Edit.h"
#include "TokenOrder.h"

#include <algorithm>
#include <optional>
#include <set>

namespace dtc::replay::test {
namespace {

/// Programs that are written by hand have no placements.
bool isFlat(const fbs::BindingT &binding) {
  return binding.placement && !binding.placement->flat_axes.empty();
}

using fbs::BindingKind;
using fbs::Scope;

/// The references of an instruction's operands: those it reads, then those it writes, in the
/// order of `reads` and `writes`. Empty for what has views of its own.
std::vector<fbs::Ref *> refsOf(fbs::InstructionT &instruction) {
  std::vector<fbs::Ref *> refs;
  if (auto *launch = instruction.op.AsLaunch()) {
    for (fbs::Ref &ref : launch->args)
      refs.push_back(&ref);
  } else if (auto *copy = instruction.op.AsCopy()) {
    refs = {copy->source.get(), copy->target.get()};
  } else if (auto *zero = instruction.op.AsZero()) {
    refs = {zero->target.get()};
  } else if (auto *collective = instruction.op.AsCollective()) {
    for (auto &operand : collective->operands)
      refs.push_back(operand->source.get());
    for (auto &operand : collective->operands)
      refs.push_back(operand->target.get());
  } else if (auto *matmul = instruction.op.AsMatmul()) {
    refs = {matmul->a->ref.get(), matmul->b->ref.get(), matmul->c->ref.get()};
  }
  return refs;
}

uint32_t valueOf(const fbs::InstructionT &instruction, size_t operand) {
  size_t reads = instruction.reads.size();
  return operand < reads ? instruction.reads[operand] : instruction.writes[operand - reads];
}

uint64_t scratchOf(const fbs::InstructionT &instruction) {
  if (const auto *launch = instruction.op.AsLaunch())
    return launch->scratch_per_thread;
  if (const auto *matmul = instruction.op.AsMatmul())
    return matmul->scratch_bytes;
  return 0;
}

void setScratch(fbs::InstructionT &instruction, const fbs::Ref &ref) {
  if (auto *launch = instruction.op.AsLaunch())
    launch->scratch = std::make_unique<fbs::Ref>(ref);
  else
    instruction.op.AsMatmul()->scratch = std::make_unique<fbs::Ref>(ref);
}

/// Whether an instruction may write a result over an operand.
bool mayReplace(const fbs::InstructionT &instruction, uint32_t result, uint32_t operand) {
  const auto *launch = instruction.op.AsLaunch();
  if (!launch)
    return instruction.op.type == fbs::Op::Collective;
  for (size_t i = 0; i < instruction.writes.size(); ++i)
    if (instruction.writes[i] == result && launch->in_place[i] >= 0 &&
        instruction.reads[launch->in_place[i]] == operand)
      return true;
  return false;
}

/// When a value of a function is written and read, by instruction.
struct Life {
  int first = -1, last = -1;
  bool isBound = false; ///< an argument or result
};

std::vector<Life> livesOf(const fbs::FunctionT &function) {
  std::vector<Life> lives(function.values.size());
  for (int i = 0; i < int(function.instructions.size()); ++i) {
    for (uint32_t value : function.instructions[i]->writes)
      lives[value].first = lives[value].last = i;
    for (uint32_t value : function.instructions[i]->reads)
      lives[value].last = i;
  }
  for (const auto *list : {&function.arguments, &function.results})
    for (const fbs::BoundValue &bound : *list)
      lives[bound.value()].isBound = true;
  return lives;
}

class MutantMaker {
public:
  MutantMaker(const Role &role, size_t index, size_t most, std::vector<Mutant> &out)
      : program(*role.program), own(role.ranks[0]), ranks(role.ranks.size()), role(index),
        most(most), out(out), tokens(program) {}

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

  /// Calls of one function, or of the last microbatch's, which takes and gives the same.
  bool areAlike(const fbs::Call &a, const fbs::Call &b) const {
    const fbs::FunctionT &first = *program.functions[a.function()];
    const fbs::FunctionT &second = *program.functions[b.function()];
    auto same = [](const auto &x, const auto &y) {
      return std::ranges::equal(x, y, {}, &fbs::BoundValue::binding, &fbs::BoundValue::binding);
    };
    return first.per_microbatch && second.per_microbatch &&
           same(first.arguments, second.arguments) && same(first.results, second.results);
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
  std::vector<Mutant> made;
};

void MutantMaker::calls() {
  const auto &schedule = program.schedule;
  for (size_t i = 0; i < schedule.size(); ++i) {
    add("dropped call", nameOf(schedule[i]),
        [i](fbs::ProgramT &p) { p.schedule.erase(p.schedule.begin() + i); });
    add("doubled call", nameOf(schedule[i]), [i](fbs::ProgramT &p) {
      fbs::Call call = p.schedule[i];
      p.schedule.insert(p.schedule.begin() + i, call);
    });
    for (size_t j = i + 1; j < schedule.size(); ++j) {
      if (feeds(schedule[i], schedule[j]))
        add("swapped calls", nameOf(schedule[i]) + " and " + nameOf(schedule[j]),
            [i, j](fbs::ProgramT &p) { std::swap(p.schedule[i], p.schedule[j]); });
      if (areAlike(schedule[i], schedule[j]))
        numbersOfCalls(i, j);
    }
  }
}

/// Two calls of a function exchange one of their numbers.
void MutantMaker::numbersOfCalls(size_t i, size_t j) {
  struct Number {
    const char *kind;
    uint32_t CallFields::*field;
    Scope scope;
  };
  static const Number numbers[] = {
      {"swapped microbatches", &CallFields::microbatch, Scope::Microbatch},
      {"swapped slots", &CallFields::slot, Scope::Slot},
      {"swapped inboxes", &CallFields::inbox, Scope::Inbox},
      {"swapped outboxes", &CallFields::outbox, Scope::Outbox}};
  const fbs::Call &a = program.schedule[i], &b = program.schedule[j];
  for (const Number &number : numbers) {
    uint32_t x = CallFields(a).*number.field, y = CallFields(b).*number.field;
    bool matters = number.scope == Scope::Microbatch ? feeds(a, b) || usesPlaces(a)
                                                     : hasScope(a, number.scope);
    if (x == y || !matters)
      continue;
    add(number.kind, nameOf(a) + " and " + nameOf(b), [=](fbs::ProgramT &p) {
      set(p.schedule[i], number.field, y);
      set(p.schedule[j], number.field, x);
    });
  }
}

void MutantMaker::functionFaults(uint32_t index) {
  const fbs::FunctionT &function = *program.functions[index];
  std::vector<Life> lives = livesOf(function);
  for (size_t i = 0; i < function.instructions.size(); ++i) {
    const fbs::InstructionT &instruction = *function.instructions[i];
    std::string place = "@" + function.name + " " + std::to_string(i) + " " + instruction.name;
    bool isUsed = std::ranges::any_of(instruction.writes, [&](uint32_t value) {
      return lives[value].isBound || lives[value].last > int(i);
    });
    if (isUsed)
      dropInstruction(index, i, place);
    if (i + 1 < function.instructions.size())
      for (uint32_t value : function.instructions[i + 1]->reads)
        if (std::ranges::find(instruction.writes, value) != instruction.writes.end()) {
          add("swapped instructions", place, [index, i](fbs::ProgramT &p) {
            std::swap(p.functions[index]->instructions[i], p.functions[index]->instructions[i + 1]);
          });
          break;
        }
    operandFaults(index, i, place);
    staleReads(index, i, place, lives);
    queueFaults(index, i, place);
    collectiveFaults(index, i, place);
    partFaults(index, i, place);
  }
  earlyReuse(index, lives);
}

void MutantMaker::dropInstruction(uint32_t index, size_t i, const std::string &place) {
  bool isZero = program.functions[index]->instructions[i]->op.type == fbs::Op::Zero;
  add(isZero ? "missing clear" : "dropped instruction", place, [index, i](fbs::ProgramT &p) {
    auto &list = p.functions[index]->instructions;
    list.erase(list.begin() + i);
  });
}

void MutantMaker::operandFaults(uint32_t index, size_t i, const std::string &place) {
  const fbs::FunctionT &function = *program.functions[index];
  fbs::InstructionT copy = *function.instructions[i];
  std::vector<fbs::Ref *> refs = refsOf(copy);
  auto edit = [&](const char *kind, size_t operand, std::function<void(fbs::Ref &)> change) {
    add(kind, place + " operand " + std::to_string(operand), [=](fbs::ProgramT &p) {
      change(*refsOf(*p.functions[index]->instructions[i])[operand]);
    });
  };
  for (size_t operand = 0; operand < refs.size(); ++operand) {
    const fbs::Value &value = function.values[valueOf(copy, operand)];
    if (value.bytes() == 0)
      continue;
    uint64_t offset = refs[operand]->offset();
    edit(operand < copy.reads.size() ? "wrong address read" : "wrong address written", operand,
         [=, bytes = value.bytes()](fbs::Ref &ref) { setOffset(ref, offset + bytes); });
    if (refs[operand]->scope() == Scope::Step)
      continue;
    edit("wrong stride", operand, [](fbs::Ref &ref) { setStride(ref, ref.stride() + 64); });
    edit("wrong scope", operand, [](fbs::Ref &ref) {
      ref = fbs::Ref(ref.offset(), 0, Scope::Step, ref.space());
    });
  }
  bool isLaunch = copy.op.type == fbs::Op::Launch;
  for (size_t operand = 0; isLaunch && operand + 1 < copy.reads.size(); ++operand)
    if (refs[operand]->offset() != refs[operand + 1]->offset())
      add("swapped operands", place, [=](fbs::ProgramT &p) {
        auto swapped = refsOf(*p.functions[index]->instructions[i]);
        std::swap(*swapped[operand], *swapped[operand + 1]);
      });
  if (scratchOf(copy) && !refs.empty() && !copy.reads.empty())
    add("scratch over an operand", place, [=](fbs::ProgramT &p) {
      fbs::InstructionT &instruction = *p.functions[index]->instructions[i];
      setScratch(instruction, *refsOf(instruction)[0]);
    });
}

/// Operands are read where the first instruction of the same kind left a value of the same size:
/// what was to be computed again, as it was before.
void MutantMaker::staleReads(uint32_t index, size_t i, const std::string &place,
                             const std::vector<Life> &lives) {
  const fbs::FunctionT &function = *program.functions[index];
  fbs::InstructionT copy = *function.instructions[i];
  std::vector<fbs::Ref *> refs = refsOf(copy);
  for (size_t operand = 0; operand < std::min(refs.size(), copy.reads.size()); ++operand) {
    uint32_t read = copy.reads[operand];
    const fbs::Value &value = function.values[read];
    if (lives[read].first < 0 || lives[read].isBound || value.bytes() == 0)
      continue;
    const fbs::InstructionT &maker = *function.instructions[lives[read].first];
    for (int before = 0; before < lives[read].first; ++before) {
      const fbs::InstructionT &earlier = *function.instructions[before];
      auto alike = std::ranges::find_if(earlier.writes, [&](uint32_t other) {
        const fbs::Value &stale = function.values[other];
        return stale.bytes() == value.bytes() && stale.ref().scope() == value.ref().scope() &&
               stale.ref().offset() != value.ref().offset();
      });
      if (earlier.op.type != maker.op.type || alike == earlier.writes.end())
        continue;
      uint64_t from = value.ref().offset(), to = function.values[*alike].ref().offset();
      add("stale value read", place + " operand " + std::to_string(operand), [=](fbs::ProgramT &p) {
        fbs::Ref &ref = *refsOf(*p.functions[index]->instructions[i])[operand];
        setOffset(ref, ref.offset() - from + to);
      });
      break;
    }
  }
}

/// A temporary is moved, wherever it is used, onto another.
MutantMaker::Plant MutantMaker::move(uint32_t index, uint32_t moved, uint32_t over) const {
  const fbs::FunctionT &function = *program.functions[index];
  uint64_t from = function.values[moved].ref().offset(), to = function.values[over].ref().offset();
  return [=](fbs::ProgramT &p) {
    fbs::FunctionT &f = *p.functions[index];
    fbs::Ref place = f.values[moved].ref();
    setOffset(place, to);
    setRef(f.values[moved], place);
    for (auto &instruction : f.instructions) {
      auto refs = refsOf(*instruction);
      for (size_t i = 0; i < refs.size(); ++i)
        if (valueOf(*instruction, i) == moved)
          setOffset(*refs[i], refs[i]->offset() - from + to);
    }
  };
}

/// Onto one that is needed afterwards, or that the same instruction still reads.
void MutantMaker::earlyReuse(uint32_t index, const std::vector<Life> &lives) {
  const fbs::FunctionT &function = *program.functions[index];
  auto isMovable = [&](uint32_t value) {
    return !lives[value].isBound && lives[value].first >= 0 && function.values[value].bytes() > 0;
  };
  for (uint32_t moved = 0; moved < lives.size(); ++moved)
    for (uint32_t over = 0; isMovable(moved) && over < lives.size(); ++over) {
      int when = lives[moved].first;
      if (!isMovable(over) || lives[over].first >= when || lives[over].last < when ||
          function.values[moved].bytes() > function.values[over].bytes() ||
          function.values[moved].ref().offset() == function.values[over].ref().offset())
        continue;
      std::string place = "@" + function.name + " value " + std::to_string(moved);
      if (lives[over].last > when)
        add("early reuse", place, move(index, moved, over));
      else if (!mayReplace(*function.instructions[when], moved, over))
        add("overwritten operand", place, move(index, moved, over));
      if (lives[over].last > when)
        break;
    }
}

void MutantMaker::queueFaults(uint32_t index, size_t i, const std::string &place) {
  const fbs::FunctionT &function = *program.functions[index];
  const fbs::InstructionT &instruction = *function.instructions[i];
  for (size_t wait = 0; wait < instruction.waits.size(); ++wait)
    if (sendsMessages() ? reusesPlaces() || touchesMessage(function, instruction.reads)
                        : tokens.needsWait(index, i, instruction.waits[wait]))
      add("dropped wait", place, [=](fbs::ProgramT &p) {
        auto &waits = p.functions[index]->instructions[i]->waits;
        waits.erase(waits.begin() + wait);
      });
  for (size_t signal = 0; signal < instruction.signals.size(); ++signal)
    if (sendsMessages() ? reusesPlaces() || touchesMessage(function, instruction.writes)
                        : tokens.needsSignal(index, i, instruction.signals[signal]))
      add("dropped signal", place, [=](fbs::ProgramT &p) {
        auto &signals = p.functions[index]->instructions[i]->signals;
        signals.erase(signals.begin() + signal);
      });
  // Beside the one before, whose result it reads.
  if (program.queues.size() > 1 && instruction.op.type == fbs::Op::Launch && i > 0 &&
      function.instructions[i - 1]->queue == instruction.queue &&
      std::ranges::find(instruction.reads, function.instructions[i - 1]->writes[0]) !=
          instruction.reads.end())
    add("wrong queue", place, [=](fbs::ProgramT &p) {
      fbs::InstructionT &moved = *p.functions[index]->instructions[i];
      moved.queue = (moved.queue + 1) % p.queues.size();
    });
  if (const auto *message = instruction.op.AsMessage()) {
    bool sends = message->kind == fbs::MessageKind::Send;
    add(sends ? "lost send" : "lost receive", place, [=](fbs::ProgramT &p) {
      auto &list = p.functions[index]->instructions;
      list.erase(list.begin() + i);
    });
    add("doubled message", place, [=](fbs::ProgramT &p) {
      auto &list = p.functions[index]->instructions;
      list.insert(list.begin() + i, std::make_unique<fbs::InstructionT>(*list[i]));
    });
    add("wrong channel", place, [=](fbs::ProgramT &p) {
      p.functions[index]->instructions[i]->op.AsMessage()->channel += 1000;
    });
  }
}

/// In another group only where that shows: of another size, or with other roles.
void MutantMaker::collectiveFaults(uint32_t index, size_t i, const std::string &place) {
  const auto *op = program.functions[index]->instructions[i]->op.AsCollective();
  if (!op)
    return;
  auto sizeOf = [&](uint32_t group) { return program.groups[group]->lists[0]->ranks.size(); };
  auto isShared = [&](uint32_t group) {
    size_t members = 0;
    for (const auto &list : program.groups[group]->lists)
      members += list->ranks.size();
    return members > ranks;
  };
  bool resizes = op->kind == fbs::CollectiveKind::AllGather ||
                 op->kind == fbs::CollectiveKind::ReduceScatter ||
                 op->kind == fbs::CollectiveKind::Slice;
  for (uint32_t group = 0; group < program.groups.size(); ++group)
    if (group != op->group && ((resizes && sizeOf(group) != sizeOf(op->group)) ||
                               isShared(group) != isShared(op->group)))
      add("wrong group", place, [=](fbs::ProgramT &p) {
        p.functions[index]->instructions[i]->op.AsCollective()->group = group;
      });
  if (isShared(op->group))
    add("other collective", place, [=](fbs::ProgramT &p) {
      p.functions[index]->instructions[i]->op.AsCollective()->reduce = fbs::ReduceKind::Max;
    });
}

void MutantMaker::bindings() {
  std::set<uint32_t> used;
  for (const auto &function : program.functions)
    for (const auto *list : {&function->arguments, &function->results})
      for (const fbs::BoundValue &bound : *list)
        used.insert(bound.binding());
  for (uint32_t binding : used)
    add("moved binding", program.bindings[binding]->name, [binding](fbs::ProgramT &p) {
      setOffset(*p.bindings[binding]->ref, p.bindings[binding]->ref->offset() + 64);
    });
}

/// Parts gathered among as many other ranks.
void MutantMaker::partFaults(uint32_t index, size_t i, const std::string &place) {
  const fbs::FunctionT &function = *program.functions[index];
  const fbs::InstructionT &instruction = *function.instructions[i];
  const auto *op = instruction.op.AsCollective();
  if (!op || op->kind != fbs::CollectiveKind::AllGather)
    return;
  auto isPart = [&](const fbs::BoundValue &bound) {
    return bound.value() == instruction.reads[0] && isFlat(*program.bindings[bound.binding()]);
  };
  if (std::ranges::none_of(function.arguments, isPart))
    return;
  for (uint32_t group = 0; group < program.groups.size(); ++group)
    if (group != op->group && program.groups[group]->lists[0]->ranks.size() ==
                                  program.groups[op->group]->lists[0]->ranks.size())
      add("parts of other ranks", place, [=](fbs::ProgramT &p) {
        p.functions[index]->instructions[i]->op.AsCollective()->group = group;
      });
}

/// One of several things that are stored of a parameter lies elsewhere in its bucket.
void MutantMaker::wrongBuckets() {
  std::map<std::string, std::vector<size_t>> stored;
  for (size_t i = 0; i < program.bindings.size(); ++i)
    if (isFlat(*program.bindings[i]))
      stored[program.bindings[i]->name].push_back(i);
  for (const auto &[name, list] : stored)
    for (size_t i = 0; list.size() > 1 && i < list.size(); ++i)
      add("wrong bucket", name, [binding = list[i]](fbs::ProgramT &p) {
        p.bindings[binding]->placement->bucket_offset += 1;
      });
}

void MutantMaker::messages() {
  for (size_t list = 0; list < program.peers.size(); ++list) {
    add("wrong peer", "peers " + std::to_string(list), [list, own = own](fbs::ProgramT &p) {
      auto &ranks = p.peers[list]->ranks;
      if (ranks.size() > 1)
        std::rotate(ranks.begin(), ranks.begin() + 1, ranks.end());
      else
        ranks[0] = own;
    });
    add("missing peer", "peers " + std::to_string(list),
        [list](fbs::ProgramT &p) { p.peers[list]->ranks.back() = -1; });
  }
}

/// Keeps `most` of each kind.
void MutantMaker::thin() {
  std::map<std::string, std::vector<Mutant *>> byKind;
  for (Mutant &mutant : made)
    byKind[mutant.kind].push_back(&mutant);
  for (auto &[kind, list] : byKind)
    for (size_t i = 0, count = std::min(most, list.size()); i < count; ++i)
      out.push_back(std::move(*list[i * list.size() / count]));
}

} // namespace

std::vector<Mutant> makeMutants(const std::vector<Role> &roles, size_t most) {
  std::vector<Mutant> mutants;
  for (size_t i = 0; i < roles.size(); ++i)
    MutantMaker(roles[i], i, most, mutants).run();
  return mutants;
}

std::map<std::string, MutantCount> replayMutants(const std::vector<Role> &roles, size_t most,
                                                 std::vector<std::string> &missed) {
  std::map<std::string, MutantCount> counts;
  for (const Mutant &mutant : makeMutants(roles, most)) {
    fbs::ProgramT changed = *roles[mutant.role].program;
    mutant.plant(changed);
    std::vector<Role> others = roles;
    others[mutant.role].program = &changed;
    MutantCount &count = counts[mutant.kind];
    ++count.planted;
    if (!replayPrograms(others).empty())
      ++count.found;
    else
      missed.push_back(mutant.kind + ": " + mutant.place);
  }
  return counts;
}

} // namespace dtc::replay::test
