#include "MutantMaker.h"

#include <set>

namespace dtc::replay::test {

/// Programs that are written by hand have no placements.
static bool isFlat(const fbs::BindingT &binding) {
  return binding.placement && !binding.placement->flat_axes.empty();
}

static std::vector<Life> livesOf(const fbs::FunctionT &function) {
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
    const auto *zero = instruction.op.AsZero();
    const bool joinsQueues = zero && zero->bytes == 0;
    if (leavesOut && !instruction.training_only && !joinsQueues)
      add("left out of evaluations", place, [index, i](fbs::ProgramT &p) {
        p.functions[index]->instructions[i]->training_only = true;
      });
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
