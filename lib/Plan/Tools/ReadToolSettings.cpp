// A program's settings as a plan.
#include "ToolKeys.h"
#include "ToolText.h"

#include <algorithm>
#include <set>

namespace dtc::plan {

namespace {

/// First the facts that keys say, then the plan that these mean.
class Reader {
public:
  Reader(const Preset &preset, const std::string &name, const RunFacts &run)
      : preset(preset), name(name), run(run) {}

  void read(const std::vector<ToolEntry> &entries);
  void conclude();
  ReadSettings result;

private:
  std::vector<const ToolSetting *> settingsOf(const std::string &key) const;
  void readConstant(const ToolEntry &entry, const std::vector<const ToolSetting *> &known);
  void readFact(const ToolEntry &entry, const std::vector<const ToolSetting *> &known);
  void noteUnread(const ToolEntry &entry);
  void checkUses();
  void say(const std::string &fact, const std::string &value, const ToolEntry &entry);
  /// Of all settings together.
  void wrong(const std::string &why) { result.wrong.push_back(name + ": " + why); }
  void wrong(const ToolEntry &entry, const std::string &why);

  Facts known() const;
  std::optional<int64_t> number(const std::string &fact);
  void setDegrees();
  void setZero(int64_t copies);
  void setPipeline();
  void setBatch(int64_t dataRanks);
  void checkDevices();

  const Preset &preset;
  const std::string &name; ///< of the settings
  const RunFacts &run;
  std::map<std::string, ToolEntry> saidBy; ///< by fact
  std::set<std::string> refused;           ///< keys, each of which is told once
  /// Constants that hold only where something else does.
  std::vector<std::pair<const ToolSetting *, ToolEntry>> uses;
};

} // namespace

//===-- facts -------------------------------------------------------------===//

static std::string textOf(const ToolEntry &entry) {
  return entry.key + (entry.value.empty() ? "" : " " + entry.value);
}

void Reader::wrong(const ToolEntry &entry, const std::string &why) {
  if (refused.insert(entry.key).second)
    result.wrong.push_back(entry.place + ": " + textOf(entry) + why);
}

std::vector<const ToolSetting *> Reader::settingsOf(const std::string &key) const {
  std::vector<const ToolSetting *> found;
  for (const ToolSetting &setting : preset.settings)
    if (!key.empty() && setting.key == key)
      found.push_back(&setting);
  return found;
}

void Reader::say(const std::string &fact, const std::string &value, const ToolEntry &entry) {
  auto [known, isNew] = result.given.try_emplace(fact, value);
  if (isNew)
    saidBy[fact] = entry;
  else if (known->second != value)
    wrong(entry, " contradicts " + textOf(saidBy[fact]));
}

/// What a constant says is under which facts it is said.
void Reader::readConstant(const ToolEntry &entry, const std::vector<const ToolSetting *> &known) {
  std::string values;
  for (const ToolSetting *setting : known) {
    const std::string value = setting->value.value_or("");
    const bool isOn = value.empty() && (entry.value.empty() || entry.value == "true");
    if (!isOn && value != entry.value) {
      values += (values.empty() ? "" : ", ") + value;
      continue;
    }
    for (const ToolCondition &condition : setting->when)
      if (!condition.isNegated && (!setting->about.empty() || condition.fact == "precision"))
        say(condition.fact, condition.value, entry);
    uses.emplace_back(setting, entry);
    return;
  }
  // A switch that is off says what holds without it.
  if (entry.value != "false" && entry.value != "False")
    wrong(entry, " can't be planned, known are: " + values);
}

void Reader::readFact(const ToolEntry &entry, const std::vector<const ToolSetting *> &known) {
  const Facts facts = this->known();
  for (const ToolSetting *setting : known) {
    if (known.size() > 1 && !holds(*setting, facts))
      continue;
    if (setting->words.empty())
      return say(setting->fact, entry.value, entry);
    std::string words;
    for (const auto &[ours, theirs] : setting->words) {
      if (theirs == entry.value)
        return say(setting->fact, ours, entry);
      words += (words.empty() ? "" : ", ") + theirs;
    }
    return wrong(entry, " can't be planned, known are: " + words);
  }
}

/// What no setting has may be about something else, or mistyped.
void Reader::noteUnread(const ToolEntry &entry) {
  std::vector<std::string> keys;
  for (const ToolSetting &setting : preset.settings)
    keys.push_back(setting.key);
  std::string close = nearest(entry.key, keys);
  result.unread.push_back(entry.key + (close.empty() ? "" : " (did you mean " + close + "?)"));
}

void Reader::read(const std::vector<ToolEntry> &entries) {
  // Which fact a key says may depend on other keys, so that those come last.
  for (bool isLate : {false, true})
    for (const ToolEntry &entry : entries) {
      const std::vector<const ToolSetting *> found = settingsOf(entry.key);
      const bool isFact = !found.empty() && !found.front()->fact.empty();
      if (isLate != (isFact && found.size() > 1))
        continue;
      if (found.empty())
        noteUnread(entry);
      else if (isFact)
        readFact(entry, found);
      else
        readConstant(entry, found);
    }
}

//===-- the plan ----------------------------------------------------------===//

Facts Reader::known() const {
  Facts facts = result.given;
  for (const auto &[fact, value] : preset.otherwise)
    facts.try_emplace(fact, value);
  return facts;
}

/// A number of the settings, at least 1; none where they don't say it.
std::optional<int64_t> Reader::number(const std::string &fact) {
  const Facts facts = known();
  auto found = facts.find(fact);
  const bool mayBeOpen = preset.form == SettingsForm::Toml; // as torchtitan says it
  if (found == facts.end() || (mayBeOpen && found->second == "-1"))
    return std::nullopt;
  auto value = toInteger(found->second);
  if (value && *value >= 1 && *value <= kMostDegree)
    return value;
  wrong(saidBy[fact], ": expected a number from 1");
  return std::nullopt;
}

static std::string product(int64_t a, int64_t b) {
  return std::to_string(a) + " x " + std::to_string(b);
}

void Reader::checkDevices() {
  auto devices = number("devices"), nodes = number("nodes"), each = number("devices_per_node");
  if (!devices && nodes && each)
    devices = *nodes * *each;
  if (devices && *devices != run.devices)
    wrong("the settings are for " + std::to_string(*devices) + " devices, not for " +
          std::to_string(run.devices));
}

void Reader::setDegrees() {
  Spec &spec = result.spec;
  const Facts facts = known();
  int64_t others = 1;
  for (auto [fact, pin] : {std::pair("tp", &Spec::tp), std::pair("pp", &Spec::pp),
                           std::pair("cp", &Spec::cp), std::pair("ep", &Spec::ep)}) {
    spec.*pin = number(fact).value_or(1);
    others *= std::min(*(spec.*pin), kMostDegree / others);
  }
  if (run.devices % others != 0)
    wrong("the degrees make up " + std::to_string(others) + " devices, which don't divide " +
          std::to_string(run.devices));
  spec.dp = std::max<int64_t>(1, run.devices / others);
  auto fact = [&](const char *name) {
    auto found = facts.find(name);
    return found == facts.end() ? std::string() : found->second;
  };
  if (fact("sp") == "on" && spec.tp == 1)
    wrong("sequence parallelism needs tensor parallelism: " + textOf(saidBy["sp"]));
  if (!fact("sp").empty())
    spec.sp = fact("sp") == "on";
  spec.recompute = recomputeFromName(fact("recompute"));
  spec.offload = offloadFromName(fact("offload"));
  setZero(*spec.dp);
}

/// ZeRO's level, and how many ranks share its storage.
void Reader::setZero(int64_t copies) {
  Spec &spec = result.spec;
  const Facts facts = known();
  if (auto zero = facts.find("zero"); zero != facts.end())
    spec.zero = static_cast<int>(toInteger(zero->second).value_or(0));
  auto shards = number("shards"), replicas = number("replicas");
  if (result.given.contains("shards") && shards && replicas && *shards * *replicas != copies)
    wrong(product(*replicas, *shards) + " data-parallel ranks are said, and the degrees leave " +
          std::to_string(copies));
  if (!shards && replicas && copies % *replicas == 0)
    shards = copies / *replicas;
  // Facts have no number of copies where a hybrid strategy leaves that to the nodes.
  if (!shards)
    shards = preset.zeroGroups == ZeroGroups::None ? copies : std::min(run.devicesPerNode, copies);
  if (copies == 1 || *shards == 1)
    spec.zero = 0;
  else if (spec.zero > 1)
    spec.zeroGroup = shards;
}

void Reader::setPipeline() {
  Spec &spec = result.spec;
  const Facts facts = known();
  auto chunks = number("chunks"), layers = number("layers_per_stage");
  if (!chunks && layers && run.layers > 0 && run.layers % (*layers * *spec.pp) == 0)
    chunks = run.layers / (*layers * *spec.pp);
  if (chunks > 1 && spec.pp == 1)
    wrong("several stages a rank need a pipeline: " + textOf(saidBy["chunks"]));
  if (spec.pp == 1)
    return;
  auto schedule = facts.find("schedule");
  if (schedule != facts.end())
    spec.schedule = scheduleFromName(schedule->second);
  else
    spec.schedule = chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
  if (spec.schedule == ScheduleKind::OneFOneB && chunks > 1)
    wrong("1F1B has one stage a rank, and the settings have " + std::to_string(*chunks));
  spec.chunks = chunks;
}

/// Samples of a microbatch, microbatches of a step, samples of a step: two of them give the third.
void Reader::setBatch(int64_t dataRanks) {
  auto micro = number("micro_batch"), calls = number("accumulation"), all = number("global_batch");
  auto local = number("local_batch");
  if (!calls && local && micro && *local % *micro == 0)
    calls = *local / *micro;
  if (micro && calls) {
    const int64_t product = *micro * *calls * dataRanks;
    if (all && *all != product && result.given.contains("accumulation"))
      wrong(std::to_string(*micro) + " samples x " + std::to_string(*calls) + " microbatches x " +
            std::to_string(dataRanks) + " data-parallel ranks are " + std::to_string(product) +
            ", and the global batch is " + std::to_string(*all));
    all = all.value_or(product);
  } else if (calls && all) {
    if (*all % (*calls * dataRanks) == 0)
      micro = *all / (*calls * dataRanks);
    else
      wrong("the global batch of " + std::to_string(*all) + " can't be cut into " +
            std::to_string(*calls) + " microbatches on " + std::to_string(dataRanks) + " ranks");
  }
  if (micro && all && *all % (*micro * dataRanks) != 0)
    wrong("the global batch of " + std::to_string(*all) + " is not a multiple of " +
          std::to_string(dataRanks) + " data-parallel ranks times a microbatch of " +
          std::to_string(*micro));
  result.spec.microBatch = micro;
  result.globalBatch = all;
}

/// Settings that mean something only with others.
void Reader::checkUses() {
  Facts facts = known();
  facts["data_ranks"] = std::to_string(*result.spec.dp * *result.spec.ep);
  for (const auto &[setting, entry] : uses)
    for (const ToolCondition &condition : setting->when) {
      auto fact = facts.find(condition.fact);
      if (fact != facts.end() && setting->about.empty() &&
          (fact->second == condition.value) == condition.isNegated)
        result.wrong.push_back(entry.place + ": " + textOf(entry) + " is of use with " +
                               condition.fact + (condition.isNegated ? " other than " : "=") +
                               condition.value + " alone, got " + fact->second);
    }
}

void Reader::conclude() {
  checkDevices();
  setDegrees();
  if (!result.wrong.empty())
    return; // the rest would follow from it
  setPipeline();
  setBatch(*result.spec.dp * *result.spec.ep);
  checkUses();
  const Facts facts = known();
  if (auto precision = facts.find("precision"); precision != facts.end())
    result.precision = precision->second;
  for (const std::string &line : unableTo(preset.abilities, result.spec))
    wrong(line);
}

Result<ReadSettings> readToolSettings(const Preset &preset, const std::string &text,
                                      const std::string &name, const RunFacts &run) {
  auto entries = toolEntries(preset.form, text, name);
  if (!entries)
    return entries.error();
  Reader reader(preset, name, run);
  reader.read(*entries);
  if (reader.result.given.empty())
    return Error{name + ": no settings of " + preset.title + " are in it"};
  reader.conclude();
  return std::move(reader.result);
}

} // namespace dtc::plan
