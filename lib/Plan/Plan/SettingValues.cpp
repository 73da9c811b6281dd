#include "SettingValues.h"

#include <charconv>

namespace dtc::plan {

//===-- words -------------------------------------------------------------===//

template <typename Word> using Names = std::vector<std::pair<Word, const char *>>;

static const Names<Recompute> recomputeNames = {
    {Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}};
static const Names<Offload> offloadNames = {{Offload::None, "none"},
                                            {Offload::Optimizer, "optimizer"}};
static const Names<TensorWeights> tensorWeightsNames = {{TensorWeights::Any, "any"},
                                                        {TensorWeights::Split, "split"}};
static const Names<ContextExchange> contextExchangeNames = {{ContextExchange::Keys, "keys"},
                                                            {ContextExchange::Heads, "heads"},
                                                            {ContextExchange::Ring, "ring"}};
static const Names<Overflow> overflowNames = {{Overflow::Error, "error"}, {Overflow::Drop, "drop"}};

template <typename Word> static const char *nameOf(const Names<Word> &names, Word word) {
  for (auto [known, name] : names)
    if (known == word)
      return name;
  return "?";
}

template <typename Word>
static std::optional<Word> fromName(const Names<Word> &names, const std::string &text) {
  for (auto [known, name] : names)
    if (text == name)
      return known;
  return std::nullopt;
}

const char *name(Recompute kind) { return nameOf(recomputeNames, kind); }
const char *name(Offload kind) { return nameOf(offloadNames, kind); }
const char *name(TensorWeights kind) { return nameOf(tensorWeightsNames, kind); }
const char *name(ContextExchange kind) { return nameOf(contextExchangeNames, kind); }
const char *name(Overflow kind) { return nameOf(overflowNames, kind); }
std::optional<Recompute> recomputeFromName(const std::string &text) {
  return fromName(recomputeNames, text);
}
std::optional<Offload> offloadFromName(const std::string &text) {
  return fromName(offloadNames, text);
}
std::optional<TensorWeights> tensorWeightsFromName(const std::string &text) {
  return fromName(tensorWeightsNames, text);
}
std::optional<ContextExchange> contextExchangeFromName(const std::string &text) {
  return fromName(contextExchangeNames, text);
}
std::optional<Overflow> overflowFromName(const std::string &text) {
  return fromName(overflowNames, text);
}

static constexpr const char *kWorstCase = "worst", *kTiles = "tiles";

std::string name(const ExpertCapacity &capacity) {
  if (capacity.isWorstCase())
    return kWorstCase;
  if (capacity.inTiles)
    return kTiles;
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof(text), capacity.factor);
  return {text, end};
}

std::optional<ExpertCapacity> capacityFromName(const std::string &text) {
  constexpr double least = 0.01, most = 1e4;
  if (text == kWorstCase)
    return ExpertCapacity();
  if (text == kTiles)
    return ExpertCapacity{.inTiles = true};
  double factor = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size() || !(factor >= least) ||
      factor > most)
    return std::nullopt;
  return ExpertCapacity{factor};
}

//===-- values in words ---------------------------------------------------===//

static const Degrees &defaults() {
  static const Degrees degrees;
  return degrees;
}

std::string valueText(const Setting &setting, const Degrees &degrees) {
  return std::visit(
      [&]<typename T, typename Pin>(Member<T, Pin> member) {
        if constexpr (std::is_same_v<T, StageGroups>)
          return std::to_string((degrees.*member.plan).size());
        else
          return textOf(degrees.*member.plan);
      },
      setting.member);
}

/// As all stage groups have it. The ranks of the pipeline are shared among them.
static std::string textInGroups(const Setting &setting, const Degrees &degrees) {
  if (&setting == &settingOf(&Degrees::pp))
    return valueText(setting, degrees) + rankCounts(degrees);
  std::string text;
  for (size_t group = 0; group < groupCount(degrees); ++group)
    text += (group > 0 ? "|" : "") + valueText(setting, inGroup(degrees, group));
  return text;
}

static bool isInGroups(const Setting &setting) {
  return std::visit([](auto member) { return member.group != nullptr; }, setting.member);
}

std::string settingText(const Setting &setting, const Degrees &degrees) {
  std::string name = std::string(setting.name) + "=";
  if (isList(setting))
    return settingText(settingOf(&Degrees::dp), degrees) + " " +
           settingText(settingOf(&Degrees::tp), degrees) + " " +
           settingText(settingOf(&Degrees::pp), degrees);
  if (isInGroups(setting))
    return name + textInGroups(setting, degrees);
  if (setting.ifZero && hasDefault(setting, degrees))
    return name + std::to_string(degrees.*setting.ifZero);
  return name + valueText(setting, degrees);
}

std::string blocksText(const Setting &setting, const Degrees &degrees) {
  return hasDefault(setting, degrees) ? "" : " (" + valueText(setting, degrees) + " blocks)";
}

bool hasDefault(const Setting &setting, const Degrees &degrees) {
  return std::visit([&](auto member) { return degrees.*member.plan == defaults().*member.plan; },
                    setting.member);
}

bool isPlain(const Setting &setting, const Degrees &degrees) {
  return setting.isPlain ? setting.isPlain(degrees) : hasDefault(setting, degrees);
}

//===-- pins --------------------------------------------------------------===//

template <typename T> static bool isSet(const std::optional<T> &pin) { return pin.has_value(); }
static bool isSet(const StageGroups &pin) { return !pin.empty(); }

template <typename T> static const T &valueOf(const std::optional<T> &pin) { return *pin; }
static StageGroups valueOf(const StageGroups &pin) { return pin; }

bool isSayable(const Setting &setting) {
  return !isList(setting) &&
         std::visit([](auto member) { return member.pin != nullptr; }, setting.member);
}

bool isPinned(const Setting &setting, const Spec &spec) {
  return std::visit([&](auto member) { return member.pin && isSet(spec.*member.pin); },
                    setting.member);
}

void unpin(const Setting &setting, Spec &spec) {
  std::visit(
      [&](auto member) {
        if (member.pin)
          spec.*member.pin = {};
      },
      setting.member);
}

void pinAsPlanned(const Setting &setting, const Degrees &degrees, Spec &spec) {
  if (setting.isDecided && !setting.isDecided(degrees))
    return;
  std::visit(
      [&](auto member) {
        if (member.pin)
          spec.*member.pin = degrees.*member.plan;
      },
      setting.member);
}

void applyPin(const Setting &setting, const Spec &spec, Degrees &degrees) {
  std::visit(
      [&](auto member) {
        if (member.pin && isSet(spec.*member.pin))
          degrees.*member.plan = valueOf(spec.*member.pin);
      },
      setting.member);
}

std::optional<std::string> pinnedValue(const Setting &setting, const Spec &spec) {
  if (!isSayable(setting) || !isPinned(setting, spec))
    return std::nullopt;
  Degrees degrees;
  applyPin(setting, spec, degrees);
  return valueText(setting, degrees);
}

std::string pinOfTraining(const Spec &spec) {
  for (const Setting &setting : settings())
    if (auto value = pinnedValue(setting, spec);
        setting.isOfTraining && value && *value != valueText(setting, Degrees()))
      return std::string(setting.name) + "=" + *value;
  return "";
}

template <typename Word> static std::string wordsOf(std::span<const Word> words) {
  std::string all;
  for (Word word : words)
    all += (all.empty() ? "" : "|") + std::string(name(word));
  return all;
}

template <typename Word> static std::string wordsOf(const Names<Word> &names) {
  std::vector<Word> words;
  for (auto [word, name] : names)
    words.push_back(word);
  return wordsOf(std::span<const Word>(words));
}

/// What a SPEC's value must be.
static std::string expected(ScheduleKind) { return wordsOf(schedule::allSchedules()); }
static std::string expected(Recompute) { return wordsOf(recomputeNames); }
static std::string expected(Offload) { return wordsOf(offloadNames); }
static std::string expected(TensorWeights) { return wordsOf(tensorWeightsNames); }
static std::string expected(ContextExchange) { return wordsOf(contextExchangeNames); }
static std::string expected(Overflow) { return wordsOf(overflowNames); }
static std::string expected(const ExpertCapacity &) {
  return "a factor from 0.01 to 10000, " + std::string(kWorstCase) + ", or " + kTiles;
}
static std::string expected(bool) { return "on|off"; }
static std::string expected(std::integral auto) { return "a positive integer"; }
static std::string expected(const AxisOrder &) {
  return "each of tp, cp, ep, dp and pp once, innermost first, as in " + name(kDefaultOrder);
}

/// A SPEC's value; nothing where it can't be that.
template <typename T>
static std::optional<T> parsed(const Setting &setting, const std::string &text) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    std::optional<int64_t> value = toInteger(text);
    if (!value || *value < setting.inSpec.least || *value > setting.inSpec.most)
      return std::nullopt;
    return static_cast<T>(*value);
  } else {
    return fromText<T>(text);
  }
}

std::string pinValue(const Setting &setting, const std::string &value, Spec &spec) {
  return std::visit(
      [&]<typename T, typename Pin>(Member<T, Pin> member) -> std::string {
        if constexpr (std::is_same_v<T, StageGroups>) {
          return "can't be said in a SPEC";
        } else {
          spec.*member.pin = parsed<T>(setting, value);
          if (isSet(spec.*member.pin))
            return "";
          return "expects " + (setting.expects ? setting.expects : expected(T()));
        }
      },
      setting.member);
}

} // namespace dtc::plan
