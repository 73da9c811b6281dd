#include "dtc/Plan/Plan/Abilities.h"

#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Schedule/Groups.h"

namespace dtc::plan {

/// "litgpt has recompute=none alone, got recompute=full"
static std::string lineOf(const Abilities &abilities, const std::string &has,
                          const std::string &got) {
  return abilities.program + " has " + has + " alone, got " + got;
}

template <typename T>
static void checkList(const Abilities &abilities, const char *key, const std::vector<T> &able,
                      const std::optional<T> &asked, std::vector<std::string> &wrong) {
  if (!asked || isAble(able, *asked))
    return;
  auto text = [](T value) {
    if constexpr (std::is_enum_v<T>)
      return std::string(name(value));
    else
      return std::to_string(value);
  };
  std::string has;
  for (const T &value : able)
    has += (has.empty() ? std::string(key) + "=" : "|") + text(value);
  wrong.push_back(lineOf(abilities, has, std::string(key) + "=" + text(*asked)));
}

bool needsSp(const Abilities &abilities, int64_t tp, int64_t ep) {
  return tp > 1 && (abilities.tensorNeedsSp || (abilities.expertsNeedSp && ep > 1));
}

std::vector<std::string> unableTo(const Abilities &abilities, const Spec &asked) {
  std::vector<std::string> wrong;
  for (const Setting &setting : settings()) {
    auto has = pinnedValue(setting, abilities.fixed), got = pinnedValue(setting, asked);
    if (has && got && *has != *got)
      wrong.push_back(lineOf(abilities, std::string(setting.name) + "=" + *has,
                             std::string(setting.name) + "=" + *got));
  }
  if (abilities.hasLimits() && asked.capacity && !asked.capacity->isWorstCase())
    wrong.push_back(lineOf(abilities, "capacity=worst", "capacity=" + name(*asked.capacity)));
  if (asked.sp == false && needsSp(abilities, asked.tp.value_or(1), asked.ep.value_or(1)))
    wrong.push_back(lineOf(abilities, "sp=on with these degrees", "sp=off"));
  checkList(abilities, "zero", abilities.zero, asked.zero, wrong);
  checkList(abilities, "schedule", abilities.schedules, asked.schedule, wrong);
  checkList(abilities, "recompute", abilities.recompute, asked.recompute, wrong);
  checkList(abilities, "offload", abilities.offload, asked.offload, wrong);
  return wrong;
}

Spec withFixed(const Abilities &abilities, Spec asked) {
  for (const Setting &setting : settings())
    if (auto has = pinnedValue(setting, abilities.fixed); has && !isPinned(setting, asked))
      pinValue(setting, *has, asked); // a value that was read by the same function
  if (asked.tp && !asked.sp && needsSp(abilities, *asked.tp, asked.ep.value_or(1)))
    asked.sp = true;
  return asked;
}

/// Of queries and of keys: what tensor parallelism cuts attention along. Several ranks may hold the
/// same keys. Shapes are [batch, sequence, heads, head size].
static std::string whyNotByHeads(const Problem &problem, const Degrees &degrees) {
  for (const Op &op : problem.ops) {
    if (op.kind != OpKind::Attention || op.backward || op.operands.size() < 2)
      continue;
    for (size_t operand : {0, 1}) {
      const std::vector<int64_t> &shape = problem.values[op.operands[operand]].shape;
      const bool mayShare = operand == 1 && shape.size() > 2 && degrees.tp % shape[2] == 0;
      if (shape.size() > 2 && shape[2] % degrees.tp != 0 && !mayShare)
        return "tp=" + std::to_string(degrees.tp) + " doesn't divide " + std::to_string(shape[2]) +
               " heads (" + op.location + ")";
    }
  }
  return "";
}

std::string whyUnable(const Abilities &abilities, const Problem &problem, int64_t layers,
                      const Degrees &degrees) {
  const int64_t stages = degrees.pp * degrees.chunks;
  std::string reason;
  if (!isAble(abilities.schedules, degrees.schedule) && degrees.pp > 1)
    reason = "it has no schedule=" + std::string(name(degrees.schedule));
  else if (abilities.evenStages && stages > 1 && layers % stages != 0)
    reason = std::to_string(layers) + " layers can't be cut into " + std::to_string(stages) +
             " equal stages";
  else if (leftOver(scheduleShape(degrees)) != 0)
    reason = "its interleaved schedule needs a multiple of " + std::to_string(degrees.pp) +
             " ranks as microbatches, got " + std::to_string(degrees.numMicrobatches);
  else if (abilities.wholeHeads && degrees.tp > 1)
    reason = whyNotByHeads(problem, degrees);
  return reason.empty() ? "" : abilities.program + " can't run " + summary(degrees) + ": " + reason;
}

} // namespace dtc::plan
