#include "dtc/Plan/Plan/Settings.h"

#include "dtc-io/EditDistance.h"

#include <algorithm>
#include <charconv>

namespace dtc::plan {

//===-- words -------------------------------------------------------------===//

std::string nearest(const std::string &word, const std::vector<std::string> &known) {
  constexpr size_t kMostLetters = 200; // a file may have words of megabytes
  std::string best;
  if (word.size() > kMostLetters)
    return best;
  size_t bestDistance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string &candidate : known)
    if (size_t distance = io::editDistance(word, candidate); distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  return best;
}

//===-- parsing -----------------------------------------------------------===//

std::optional<int64_t> toInteger(const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

static Error unknownKey(const std::string &key) {
  std::vector<std::string> known;
  for (const Setting &setting : settings())
    if (isSayable(setting))
      known.push_back(setting.name);
  std::string close = nearest(key, known);
  std::string hint = close.empty() ? "" : " (did you mean " + close + "?)";
  return {"plan: unknown key: " + key + hint, ErrorCategory::Usage};
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
      return Error{"plan: expected KEY=VALUE, got '" + item + "'", ErrorCategory::Usage};
    std::string name = trim(item.substr(0, equals)), value = trim(item.substr(equals + 1));
    std::replace(name.begin(), name.end(), '-', '_');
    auto key = std::find_if(settings().begin(), settings().end(), [&](const Setting &setting) {
      return isSayable(setting) && setting.name == name;
    });
    if (key == settings().end())
      return unknownKey(name);
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return Error{"plan: key is given twice: " + name, ErrorCategory::Usage};
    seen.push_back(name);
    if (std::string error = pinValue(*key, value, spec); !error.empty())
      return Error{"plan: " + name + " " + error + ", got '" + value + "'", ErrorCategory::Usage};
  }
  return spec;
}

Spec pinned(const Degrees &degrees, Spec asked) {
  for (const Setting &setting : settings())
    pinAsPlanned(setting, degrees, asked);
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
                     std::to_string(devices),
                 ErrorCategory::Usage};
  return spec;
}

std::string whyNoLimit(const Spec &spec) {
  if (spec.kept.value_or(0) == 0 || (spec.schedule && describe(*spec.schedule).limitsKept()))
    return "";
  std::string names;
  for (ScheduleKind kind : schedule::allSchedules())
    if (describe(kind).limitsKept())
      names += (names.empty() ? "" : "|") + std::string(name(kind));
  return "kept=" + std::to_string(*spec.kept) + " needs schedule=" + names +
         (spec.schedule ? ", got schedule=" + std::string(name(*spec.schedule)) : "");
}

Result<Spec> fill(Spec spec, int64_t devices) {
  if (std::string reason = whyNoLimit(spec); !reason.empty())
    return Error{"plan: " + reason, ErrorCategory::Usage};
  if (!spec.groups.empty())
    return fillGroups(std::move(spec), devices);
  std::optional<int64_t> *degrees[] = {&spec.dp, &spec.tp, &spec.pp, &spec.cp, &spec.ep};
  constexpr const char *names[] = {"dp", "tp", "pp", "cp", "ep"};
  int64_t product = 1;
  std::string pinned; // of which the product is
  for (size_t i = 0; i < std::size(degrees); ++i) {
    const std::optional<int64_t> &degree = *degrees[i];
    if (!degree)
      continue;
    pinned += (pinned.empty() ? "" : "*") + std::string(names[i]);
    if (*degree > devices || devices % (product * *degree) != 0)
      return Error{"plan: " + pinned + " = " + std::to_string(product * *degree) +
                       " doesn't divide the number of devices: " + std::to_string(devices),
                   ErrorCategory::Usage};
    product *= *degree;
  }
  size_t open = 0;
  for (std::optional<int64_t> *degree : degrees)
    open += !*degree;
  if (open == 0 && product != devices)
    return Error{"plan: dp*tp*pp*cp*ep is " + std::to_string(product) +
                     ", but the number of devices is " + std::to_string(devices),
                 ErrorCategory::Usage};
  if (product == devices && (!pinned.empty() || devices == 1))
    for (std::optional<int64_t> *degree : degrees)
      *degree = degree->value_or(1);
  return spec;
}

} // namespace dtc::plan
