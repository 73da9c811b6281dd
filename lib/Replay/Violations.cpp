// What RankReplay says of a violation.
#include "RankReplay.h"

#include <algorithm>

namespace dtc::replay {

std::string RankReplay::fail(const std::string &what) const {
  const fbs::FunctionT &function = role.functionOf(program.schedule[site.call]);
  std::string where = site.instruction < function.instructions.size()
                          ? role.describe(site)
                          : role.describeCall(site.step, site.call);
  return classes.describe(classNumber) + ": " + where + ": " + what;
}

std::string RankReplay::failRead(const Access &access, Content content, const Fault &fault) const {
  std::string what = "reads " + (content ? describe(content)
                                         : describeValue(role.functionOf(*call), access.value));
  if (!content)
    return fail(what + ", which nothing has computed in this step");
  if (fault.cause == Fault::UnorderedWrite)
    return fail(what + " without waiting for it, at offset " + std::to_string(fault.address));
  return fail(what + ", but " + describe(fault.found) + " lies there, at offset " +
              std::to_string(fault.address));
}

std::string RankReplay::failResult(const Bound &result, Content content,
                                   const Fault &fault) const {
  std::string what = "returns " + describeValue(role.functionOf(*call), result.value) + " as " +
                     role.describeBinding(result.binding);
  if (!content)
    return fail(what + ", which nothing has computed in this step");
  return fail(what + ", but " + describe(fault.found) + " lies there, at offset " +
              std::to_string(fault.address));
}

std::string RankReplay::failWrite(const std::string &what, const Fault &fault) const {
  static const char *const reasons[] = {"", ", which may not be written yet",
                                        ", which may still be read", ", which it reads itself",
                                        ", which it writes itself"};
  return fail("writes " + what + " over " + describe(fault.found) + reasons[fault.cause] +
              ", at offset " + std::to_string(fault.address));
}

std::string RankReplay::describeValue(const fbs::FunctionT &function, uint32_t value) const {
  const FunctionFacts &facts = role.functions[call->function()];
  if (&function == &role.functionOf(*call))
    if (auto it = std::ranges::find(facts.arguments, value, &Bound::value);
        it != facts.arguments.end())
      return role.describeBinding(it->binding);
  std::string text = "value " + std::to_string(value);
  if (const fbs::InstructionT *writer = writerOf(function, value))
    text += " of " + replay::describe(function, *writer);
  return text;
}

std::string RankReplay::describe(Content content) const {
  auto block = std::ranges::upper_bound(blocks, content, {}, &Block::first);
  if (!content || block == blocks.begin())
    return "nothing";
  --block;
  return describeBlock(*block, content - block->first);
}

std::string RankReplay::describeBlock(const Block &block, uint64_t index) const {
  std::string step = " of " + nameOfStep(block.step);
  if (block.call == kHost) {
    uint32_t binding = index / role.numMicrobatches();
    std::string text = role.describeBinding(binding);
    if (role.instances(binding) > 1)
      text += " of microbatch " + std::to_string(index % role.numMicrobatches());
    return text + (persists(program.bindings[binding]->kind) ? "" : step);
  }
  const fbs::FunctionT &function = role.functionOf(program.schedule[block.call]);
  std::string where = " in " + role.describeCall(block.step, block.call);
  if (index >= function.values.size())
    return "scratch memory of " +
           replay::describe(function, *function.instructions[index - function.values.size()]) +
           where;
  std::string text = "value " + std::to_string(index);
  const FunctionFacts &facts = role.functions[program.schedule[block.call].function()];
  if (auto it = std::ranges::find(facts.results, uint32_t(index), &Bound::value);
      it != facts.results.end())
    text = role.describeBinding(it->binding);
  if (const fbs::InstructionT *writer = writerOf(function, index))
    text += " of " + replay::describe(function, *writer);
  return text + where;
}

} // namespace dtc::replay
