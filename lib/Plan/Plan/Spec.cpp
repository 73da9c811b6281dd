#include "dtc/Plan/Plan/Spec.h"

#include <algorithm>
#include <charconv>
#include <functional>

namespace dtc::plan {

//===-- names -------------------------------------------------------------===//

template <typename Enum> using Names = std::vector<std::pair<Enum, const char *>>;

static Names<ScheduleKind> namesOfSchedules() {
  Names<ScheduleKind> names;
  for (ScheduleKind kind : schedule::allSchedules())
    names.emplace_back(kind, name(kind));
  return names;
}

static const Names<ScheduleKind> scheduleNames = namesOfSchedules();
static const Names<Recompute> recomputeNames = {
    {Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}};
static const Names<Offload> offloadNames = {{Offload::None, "none"},
                                            {Offload::Optimizer, "optimizer"}};

template <typename Enum> static const char *nameOf(const Names<Enum> &names, Enum kind) {
  for (auto [known, name] : names)
    if (known == kind)
      return name;
  return "?";
}

template <typename Enum>
static std::optional<Enum> fromName(const Names<Enum> &names, const std::string &text) {
  for (auto [kind, name] : names)
    if (text == name)
      return kind;
  return std::nullopt;
}

const char *name(Recompute kind) { return nameOf(recomputeNames, kind); }
const char *name(Offload kind) { return nameOf(offloadNames, kind); }
std::optional<Recompute> recomputeFromName(const std::string &text) {
  return fromName(recomputeNames, text);
}
std::optional<Offload> offloadFromName(const std::string &text) {
  return fromName(offloadNames, text);
}

static size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string &word, const std::vector<std::string> &known) {
  std::string best;
  size_t bestDistance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string &candidate : known)
    if (size_t distance = editDistance(word, candidate); distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  return best;
}

//===-- parsing -----------------------------------------------------------===//

namespace {

constexpr int kUsage = 2;

/// Stores the value of one key; returns an error's text or "".
using Setter = std::function<std::string(Spec &, const std::string &)>;

struct Key {
  const char *name;
  Setter set;
};

} // namespace

std::optional<int64_t> toInteger(const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

static Setter positive(std::optional<int64_t> Spec::*field) {
  return [field](Spec &spec, const std::string &text) -> std::string {
    std::optional<int64_t> value = toInteger(text);
    if (!value || *value < 1 || *value > kMostDegree)
      return "expects a positive integer";
    spec.*field = *value;
    return "";
  };
}

template <typename Enum>
static Setter oneOf(std::optional<Enum> Spec::*field, const Names<Enum> &names) {
  return [field, &names](Spec &spec, const std::string &text) -> std::string {
    spec.*field = fromName(names, text);
    if (spec.*field)
      return "";
    std::string all;
    for (auto [kind, name] : names)
      all += (all.empty() ? "" : "|") + std::string(name);
    return "expects " + all;
  };
}

static std::string setSequence(Spec &spec, const std::string &text) {
  if (text != "on" && text != "off")
    return "expects on|off";
  spec.sp = text == "on";
  return "";
}

static std::string setOrder(Spec &spec, const std::string &text) {
  spec.order = orderFromName(text);
  return spec.order ? "" : "expects each of tp, cp, ep, dp and pp once, innermost first, as in " +
                               name(kDefaultOrder);
}

static std::string setZero(Spec &spec, const std::string &text) {
  std::optional<int64_t> value = toInteger(text);
  if (!value || *value < 0 || *value > 3)
    return "expects 0, 1, 2 or 3";
  spec.zero = static_cast<int>(*value);
  return "";
}

static const std::vector<Key> &specKeys() {
  static const std::vector<Key> keys = {
      {"dp", positive(&Spec::dp)},
      {"tp", positive(&Spec::tp)},
      {"pp", positive(&Spec::pp)},
      {"cp", positive(&Spec::cp)},
      {"ep", positive(&Spec::ep)},
      {"sp", setSequence},
      {"zero", setZero},
      {"zero_group", positive(&Spec::zeroGroup)},
      {"schedule", oneOf(&Spec::schedule, scheduleNames)},
      {"chunks", positive(&Spec::chunks)},
      {"recompute", oneOf(&Spec::recompute, recomputeNames)},
      {"micro_batch", positive(&Spec::microBatch)},
      {"offload", oneOf(&Spec::offload, offloadNames)},
      {"order", setOrder},
  };
  return keys;
}

static Error unknownKey(const std::string &key) {
  std::vector<std::string> known;
  for (const Key &candidate : specKeys())
    known.push_back(candidate.name);
  std::string close = nearest(key, known);
  std::string hint = close.empty() ? "" : " (did you mean " + close + "?)";
  return {"plan: unknown key: " + key + hint, kUsage};
}

static std::string trim(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t");
  size_t end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Result<Spec> parseSpec(const std::string &text) {
  Spec spec;
  if (trim(text) == "auto")
    return spec;
  std::vector<std::string> seen;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string item = trim(text.substr(begin, end - begin));
    begin = end + 1;
    size_t equals = item.find('=');
    if (equals == std::string::npos)
      return Error{"plan: expected KEY=VALUE, got '" + item + "'", kUsage};
    std::string name = trim(item.substr(0, equals)), value = trim(item.substr(equals + 1));
    std::replace(name.begin(), name.end(), '-', '_');
    const std::vector<Key> &keys = specKeys();
    auto key = std::find_if(keys.begin(), keys.end(), [&](const Key &k) { return k.name == name; });
    if (key == keys.end())
      return unknownKey(name);
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return Error{"plan: key is given twice: " + name, kUsage};
    seen.push_back(name);
    if (std::string error = key->set(spec, value); !error.empty())
      return Error{"plan: " + name + " " + error + ", got '" + value + "'", kUsage};
  }
  return spec;
}

/// The pinned parts as a plan's.
static Plan planOf(const Spec &spec) {
  Plan plan;
  plan.degrees.dp = spec.dp.value_or(1);
  plan.degrees.tp = spec.tp.value_or(1);
  plan.degrees.pp = spec.pp.value_or(1);
  plan.degrees.cp = spec.cp.value_or(1);
  plan.degrees.ep = spec.ep.value_or(1);
  plan.degrees.zero = spec.zero.value_or(0);
  plan.degrees.zeroGroup = spec.zeroGroup.value_or(0);
  plan.degrees.chunks = spec.chunks.value_or(1);
  plan.degrees.recompute = spec.recompute.value_or(Recompute::None);
  plan.degrees.offload = spec.offload.value_or(Offload::None);
  plan.degrees.order = spec.order.value_or(kDefaultOrder);
  plan.degrees.groups = spec.groups;
  return plan;
}

std::vector<std::string> unimplemented(const Problem &problem, const Spec &spec) {
  return unimplemented(problem, planOf(spec));
}

Spec pinned(const Degrees &degrees, Spec asked) {
  asked.dp = degrees.dp;
  asked.tp = degrees.tp;
  asked.pp = degrees.pp;
  asked.cp = degrees.cp;
  asked.ep = degrees.ep;
  if (degrees.zeroBlocks == 0)
    asked.zero = degrees.zero;
  if (degrees.zeroGroup > 0)
    asked.zeroGroup = degrees.zeroGroup;
  asked.schedule = degrees.schedule;
  asked.chunks = degrees.chunks;
  asked.microBatch = degrees.microBatch;
  if (degrees.recomputeBlocks == 0)
    asked.recompute = degrees.recompute;
  asked.offload = degrees.offload;
  asked.groups = degrees.groups;
  asked.order = degrees.order;
  return asked;
}

/// A plan's groups, with all degrees known.
static Result<Spec> fillGroups(Spec spec, int64_t devices) {
  Degrees degrees;
  degrees.cp = spec.cp.value_or(1);
  degrees.ep = spec.ep.value_or(1);
  degrees.groups = spec.groups;
  if (degrees.devices() != devices)
    return Error{"plan: its stage groups aren't as many devices as there are: " +
                     std::to_string(devices), kUsage};
  return spec;
}

Result<Spec> fill(Spec spec, int64_t devices) {
  if (!spec.groups.empty())
    return fillGroups(std::move(spec), devices);
  std::optional<int64_t> *degrees[] = {&spec.dp, &spec.tp, &spec.pp, &spec.cp, &spec.ep};
  int64_t product = 1;
  bool any = false;
  for (std::optional<int64_t> *degree : degrees) {
    if (!*degree)
      continue;
    any = true;
    if (**degree > devices || devices % (product * **degree) != 0)
      return Error{"plan: dp*tp*pp*cp*ep = " + std::to_string(product * **degree) +
                       " doesn't divide the number of devices: " + std::to_string(devices),
                   kUsage};
    product *= **degree;
  }
  size_t open = 0;
  for (std::optional<int64_t> *degree : degrees)
    open += !*degree;
  if (open == 0 && product != devices)
    return Error{"plan: dp*tp*pp*cp*ep is " + std::to_string(product) +
                     ", but the number of devices is " + std::to_string(devices), kUsage};
  if (product == devices && (any || devices == 1))
    for (std::optional<int64_t> *degree : degrees)
      *degree = degree->value_or(1);
  return spec;
}

} // namespace dtc::plan
