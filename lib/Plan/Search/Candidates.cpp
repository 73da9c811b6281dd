#include "Enumeration.h"

#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Plan/Plan/SharedRows.h"
#include "dtc/Plan/Plan/Trains.h"
#include "dtc/Plan/Shard/ContextExchange.h"
#include "dtc/Plan/Solve/StageCuts.h"
#include "dtc/Schedule/Groups.h"

#include <algorithm>
#include <numeric>

namespace dtc::plan {

/// Microbatches of more tokens are as efficient as these.
static constexpr int64_t kLargestTokens = 65536;
static constexpr int64_t kLargestChunks = 8, kLargestEvenChunks = 12;

bool isPinned(const Spec &spec) {
  return spec.dp && spec.tp && spec.pp && spec.cp && spec.ep && spec.zero && spec.recompute &&
         spec.microBatch;
}

Candidates Enumeration::run() {
  if (!spec.groups.empty()) {
    addPinnedGroups();
    return std::move(result);
  }
  result.refusal = whyNotPinned();
  if (!result.refusal.empty())
    return std::move(result);
  int64_t devices = options.devices;
  for (int64_t tp : divisors(devices, spec.tp, range.tensorParallel))
    for (int64_t cp : divisors(devices / tp, spec.cp, mostContext()))
      for (int64_t ep : divisors(devices / (tp * cp), spec.ep, range.expertRanks))
        for (int64_t pp : divisors(devices / (tp * cp * ep), spec.pp, mostStages(spec.pp))) {
          Degrees degrees;
          degrees.tp = tp;
          degrees.cp = cp;
          degrees.pp = pp;
          degrees.ep = ep;
          degrees.dp = devices / (tp * cp * ep * pp);
          if (!spec.dp || *spec.dp == degrees.dp)
            addMesh(degrees);
        }
  for (int64_t cp : divisors(devices, spec.cp, mostContext()))
    for (int64_t ep : divisors(devices / cp, spec.ep, range.expertRanks))
      if (mayDiffer())
        addGroups(cp, ep, {});
  if (result.list.empty())
    if (std::string reason = whyTooMany(); !reason.empty())
      result.refusal = reason;
  return std::move(result);
}

/// Ranks with fewer tokens of a sequence have less to do than to send.
int64_t Enumeration::mostContext() const {
  constexpr int64_t shortest = 2048;
  return std::max<int64_t>(1, problem.tokensPerSample / shortest);
}

/// Those that divide the tokens, where these aren't padded (Raise/PadTokens.cpp).
std::string Enumeration::degreesOf(int64_t tokens) const {
  std::string list;
  for (int64_t cp : divisors(std::gcd(tokens, options.devices), std::nullopt, tokens))
    list += (list.empty() ? "" : ", ") + std::to_string(cp);
  return "on " + std::to_string(options.devices) + " devices cp can be " + list;
}

static bool mayHoldBatch(const sharding::Factor &factor) {
  return factor.kind == sharding::FactorKind::Parallel ||
         factor.kind == sharding::FactorKind::Reduction;
}

/// The same for the sequence and cp.
std::string Enumeration::whyNoContext(int64_t cp) const {
  bool splits = false;
  for (size_t id = 0; id < problem.ops.size() && cp > 1; ++id) {
    sharding::FactorId factor = facts.sequenceSplit[id];
    if (factor < 0)
      continue;
    splits = true;
    if (int64_t size = problem.ops[id].rule->factors[factor].size; size % cp != 0)
      return "the sequence of " + problem.ops[id].name + " (" + problem.ops[id].location +
             ") has size " + std::to_string(size) +
             ", not a multiple of cp: " + std::to_string(cp) + "; " + degreesOf(size);
  }
  if (cp == 1)
    return "";
  if (!splits)
    return "nothing carries a sequence that could be split: cp=" + std::to_string(cp);
  return whyNoExchange(problem, facts, spec.contextExchange.value_or(ContextExchange::Keys), cp);
}

std::string Enumeration::whyNoExperts(int64_t ep) const {
  if (range.expertRanks % ep == 0)
    return "";
  return (range.expertRanks == 1
              ? "no op runs experts side by side, with weights of their own: ep="
              : "ep doesn't divide the " + std::to_string(range.expertRanks) + " experts: ") +
         std::to_string(ep);
}

/// A pinned value that no other degrees go with, or "".
std::string Enumeration::whyNotPinned() const {
  if (std::string reason = spec.cp ? whyNoContext(*spec.cp) : ""; !reason.empty())
    return reason;
  return spec.ep ? whyNoExperts(*spec.ep) : "";
}

/// More devices than all degrees at their largest make up: which these are; or "".
std::string Enumeration::whyTooMany() const {
  if (options.samplesPerRank || options.fixedCalls || problem.globalBatch() < 1)
    return "";
  int64_t devices = options.devices;
  double product = 1;
  std::string text;
  auto add = [&](const std::string &key, bool isPinned, int64_t most, const std::string &why = "") {
    product *= double(most);
    text += (text.empty() ? "" : ", ") + key + (isPinned ? "=" : " up to ") +
            std::to_string(most) + why;
  };
  auto largest = [&](const std::optional<int64_t> &pinned, int64_t most) {
    std::vector<int64_t> list = divisors(devices, pinned, most);
    return list.empty() ? 1 : list.back();
  };
  int64_t batch = problem.globalBatch();
  bool hasExperts = range.expertRanks > 1;
  if (spec.dp)
    add("dp", true, *spec.dp);
  if (spec.dp && hasExperts)
    add("ep", spec.ep.has_value(), spec.ep.value_or(std::gcd(devices, range.expertRanks)));
  if (!spec.dp)
    add(hasExperts ? "dp*ep" : "dp", false, std::gcd(devices, batch),
        " (of a batch of " + std::to_string(batch) + ")");
  add("tp", spec.tp.has_value(), largest(spec.tp, range.tensorParallel));
  add("cp", spec.cp.has_value(), largest(spec.cp, mostContext()));
  add("pp", spec.pp.has_value(), largest(spec.pp, mostStages(spec.pp)));
  return product < double(devices)
             ? "degrees divide the number of devices, and those that do make up fewer: " + text
             : "";
}

/// Why the degrees don't suit the problem, or "".
std::string Enumeration::whyNot(const Degrees &degrees) const {
  if (std::string reason = whyNoContext(degrees.cp); !reason.empty())
    return reason;
  if (std::string reason = whyNoExperts(degrees.ep); !reason.empty())
    return reason;
  if (std::string reason = whyRowsStayWhole(problem, degrees);
      options.executable && !reason.empty())
    return reason;
  int64_t ranks = degrees.dataRanks();
  std::string names = degrees.ep > 1 ? "dp*ep" : "dp";
  if (ranks == 1)
    return "";
  int64_t batch = options.samplesPerRank || !options.fixedCalls ? 0 : problem.batch;
  int64_t samples = options.fixedCalls ? batch : problem.globalBatch();
  if (!options.samplesPerRank && samples > 0 && samples % ranks != 0)
    return names + " doesn't divide the batch of " + std::to_string(samples) + ": " +
           std::to_string(ranks);
  bool splits = false;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    sharding::FactorId factor = facts.batchFactor[id];
    if (factor < 0 || !mayHoldBatch(problem.ops[id].rule->factors[factor]))
      continue;
    splits = true;
    int64_t size = problem.ops[id].rule->factors[factor].size;
    if (batch > 0 && size % ranks != 0)
      return "the batch of " + problem.ops[id].name + " (" + problem.ops[id].location +
             ") has size " + std::to_string(size) + ", not a multiple of " + names + ": " +
             std::to_string(ranks);
  }
  return splits ? ""
                : "nothing carries a batch that could be split: " + names + "=" +
                      std::to_string(ranks);
}

/// Why the axes can't lie on the devices in their order, or "".
std::string Enumeration::whyNotPlaced(const Degrees &degrees) const {
  return plan::whyNotPlaced(degrees, range.severalTypes);
}

int64_t Enumeration::mostSamples() const {
  return std::max<int64_t>(1, kLargestTokens / std::max<int64_t>(1, problem.tokensPerSample));
}

/// Sizes into which a rank's samples may be cut: all by powers of two. A call may have many samples
/// of a few tokens, as launches take longer than these.
std::vector<int64_t> Enumeration::microBatches(int64_t samples) const {
  std::vector<int64_t> list;
  auto add = [&](int64_t size) {
    if (size >= 1 && samples % size == 0 && std::find(list.begin(), list.end(), size) == list.end())
      list.push_back(size);
  };
  if (spec.microBatch) {
    add(*spec.microBatch);
    return list;
  }
  const int64_t most = mostSamples();
  for (int64_t size = 1; size <= std::min(samples, most); size *= 2)
    add(size);
  for (int64_t size = samples; size >= 1; size /= 2) {
    if (size <= most)
      add(size);
    if (size % 2)
      break;
  }
  std::sort(list.begin(), list.end());
  return list;
}

/// Where dp was left open, of all that was tried.
std::string Enumeration::cannotShare(const Degrees &degrees) {
  const std::string group = ": " + std::to_string(degrees.zeroGroup);
  if (options.spec.dp || !options.spec.groups.empty())
    return "zero_group doesn't divide " + settingText(settingOf(&Degrees::dp), degrees) + group;
  for (size_t i = 0; i < groupCount(degrees); ++i)
    if (int64_t dp = inGroup(degrees, i).dp; dp % degrees.zeroGroup != 0)
      unshared.insert(dp);
  std::string list;
  for (int64_t dp : unshared)
    list += std::to_string(dp) + ", ";
  return "dp can be " + list + "no multiple of zero_group" + group;
}

/// Sets what is pinned of weights, and the ranks that share ZeRO's storage; false, with the reason,
/// where these can't.
bool Enumeration::shares(Degrees &degrees) {
  degrees.tensorWeights = spec.tensorWeights.value_or(TensorWeights::Any);
  degrees.contextExchange = spec.contextExchange.value_or(ContextExchange::Keys);
  degrees.capacity = spec.capacity.value_or(ExpertCapacity());
  degrees.overflow = spec.overflow.value_or(Overflow::Error);
  degrees.regather = spec.regather.value_or(false);
  degrees.zeroGroup = spec.zeroGroup.value_or(0);
  int64_t most = 1;
  for (size_t group = 0; group < groupCount(degrees); ++group)
    most = std::max(most, inGroup(degrees, group).dp);
  if (degrees.zeroGroup > 0 && !suitsGroups(degrees, degrees.zeroGroup))
    result.refusal = cannotShare(degrees);
  else if (degrees.zeroGroup == 1 && most > 1 && degrees.ep * degrees.cp == 1 &&
           spec.zero.value_or(0) > 0)
    result.refusal = "zero_group=1 leaves nothing to share: zero=" + std::to_string(*spec.zero);
  else
    return true;
  return false;
}

std::string Enumeration::cannotCut(int64_t samples, const Degrees &degrees) const {
  std::string ep = degrees.ep > 1 ? " and ep=" + std::to_string(degrees.ep) : "";
  return "with dp=" + std::to_string(degrees.dp) + ep + " a rank has " + std::to_string(samples) +
         " samples, which can't be cut into microbatches of " + std::to_string(*spec.microBatch);
}

void Enumeration::addMesh(Degrees degrees) {
  std::string reason = whyNot(degrees);
  if (!reason.empty()) {
    result.refusal = reason;
    return;
  }
  if (!shares(degrees))
    return;
  int64_t samples = options.samplesPerRank ? options.samplesPerRank
                                           : problem.globalBatch() / degrees.dataRanks();
  if (options.fixedCalls || samples < 1) {
    degrees.microBatch = std::max<int64_t>(1, problem.batch / degrees.dataRanks());
    degrees.numMicrobatches = problem.numMicrobatches;
    if (spec.microBatch && *spec.microBatch != degrees.microBatch)
      result.refusal = cannotCut(degrees.microBatch, degrees);
    else
      addSchedules(degrees);
    return;
  }
  std::vector<int64_t> sizes = microBatches(samples);
  if (sizes.empty())
    result.refusal = cannotCut(samples, degrees);
  for (int64_t size : sizes) {
    degrees.microBatch = size;
    degrees.numMicrobatches = samples / size;
    addSchedules(degrees);
  }
}

//===-- schedules ---------------------------------------------------------===//

/// The schedules that a SPEC may mean by several chunks, "interleaved".
static std::string namesOfChunked() {
  std::string names;
  for (ScheduleKind kind : schedule::allSchedules())
    if (describe(kind).mostChunks > 1)
      names += (names.empty() ? "" : "|") + std::string(name(kind));
  return names;
}

std::string Enumeration::tooFewOps(int64_t most, int64_t stages) const {
  auto widest =
      std::max_element(joined.begin(), joined.end(), [](const JoinedOps &a, const JoinedOps &b) {
        return a.last - a.first < b.last - b.first;
      });
  if (widest == joined.end())
    return "the forward pass has " + std::to_string(most) +
           " ops, too few for as many stages: " + std::to_string(stages);
  return "one stage must have all that changes and reads " + widest->buffer +
         ", as where a batch norm is used several times, which leaves " + std::to_string(most) +
         " stages at most: " + std::to_string(stages);
}

/// How many microbatches a rank keeps: what is pinned, or what its schedule keeps by itself.
int64_t Enumeration::keptBy(const Degrees &degrees) const {
  const schedule::Descriptor &kind = describe(degrees.schedule);
  if (degrees.pp == 1 || !kind.limitsKept() || !trains(problem))
    return 0;
  return spec.kept.value_or(0) > 0 ? *spec.kept : kind.usuallyKept(degrees.pp);
}

/// One schedule of degrees that have all else.
void Enumeration::addSchedule(Degrees degrees, ScheduleKind kind, int64_t chunks) {
  if ((spec.schedule && *spec.schedule != kind) || (spec.chunks && *spec.chunks != chunks)) {
    if (spec.chunks > 1 && result.refusal.empty())
      result.refusal =
          "several chunks a rank need several stages and schedule=" + namesOfChunked() +
          ", got chunks=" + std::to_string(*spec.chunks);
    return;
  }
  if (spec.kept.value_or(0) > 0 && degrees.pp == 1) {
    if (result.refusal.empty())
      result.refusal = "a limit of kept microbatches needs several stages, got kept=" +
                       std::to_string(*spec.kept);
    return;
  }
  // Who asks for a schedule of several chunks asks for two at least.
  const int64_t fewest = spec.schedule && describe(*spec.schedule).mostChunks > 1 ? 2 : 1;
  const bool asked = spec.pp && (spec.chunks || chunks == fewest);
  if (int64_t most = mostStages(asked ? spec.pp : std::nullopt); degrees.pp * chunks > most) {
    if (asked)
      result.refusal = tooFewOps(most, degrees.pp * chunks);
    else if (result.refusal.empty())
      result.refusal = "without pp and chunks given, the model is cut into " +
                       std::to_string(most) +
                       " stages at most, not into: " + std::to_string(degrees.pp * chunks);
    return;
  }
  degrees.schedule = kind;
  degrees.chunks = chunks;
  degrees.kept = keptBy(degrees);
  // What a larger last group holds is seldom worth it.
  const bool isTried =
      spec.schedule == kind || spec.chunks > 1 || leftOver(scheduleShape(degrees)) == 0;
  if (std::string reason = whyUnable(options.abilities, problem, range.layers, degrees);
      options.abilities.hasLimits() && !reason.empty())
    result.refusal = reason;
  else if (reason = schedule::unsupported(scheduleShape(degrees)); !reason.empty())
    result.refusal = reason + (options.samplesPerRank ? ", as no global batch is given" : "");
  else if (isTried)
    result.list.push_back(degrees);
}

/// What the degrees of all kinds of candidates have in common: their order, and schedules.
void Enumeration::addSchedules(Degrees degrees) {
  degrees.order = spec.order.value_or(kDefaultOrder);
  if (std::string reason = whyNotPlaced(degrees); !reason.empty()) {
    result.refusal = reason;
    return;
  }
  if (degrees.pp == 1) // every schedule is the same
    return addSchedule(degrees, spec.schedule.value_or(kDefaultSchedule), 1);
  // Without a backward pass there is nothing to split.
  auto isWorthTrying = [&](ScheduleKind kind) {
    return describe(kind).isSearched && (trains(problem) || !describe(kind).splitsBackward());
  };
  std::vector<ScheduleKind> single, chunked; // one chunk a rank, and several
  for (ScheduleKind kind : schedule::allSchedules())
    if ((isWorthTrying(kind) || spec.schedule == kind) && isAble(options.abilities.schedules, kind))
      (describe(kind).mostChunks == 1 ? single : chunked).push_back(kind);
  for (ScheduleKind kind : single)
    addSchedule(degrees, kind, 1);
  int64_t most = std::max(range.evenStages ? kLargestEvenChunks : kLargestChunks,
                          spec.chunks.value_or(1));
  auto mayBeChunks = [&](int64_t chunks) {
    bool isPower = chunks <= kLargestChunks && (chunks & (chunks - 1)) == 0;
    bool isEven = range.evenStages && canBeEven(range.layers, degrees.pp * chunks);
    return spec.chunks || isPower || isEven;
  };
  for (int64_t chunks = 2; chunks <= most; ++chunks)
    for (ScheduleKind kind : chunked)
      if (mayBeChunks(chunks) && chunks <= describe(kind).mostChunks)
        addSchedule(degrees, kind, chunks);
  for (ScheduleKind kind : chunked)
    if (spec.schedule == kind && spec.chunks == 1)
      addSchedule(degrees, kind, 1);
}

Candidates findCandidates(const Problem &problem, const ProblemFacts &facts, const Spec &spec,
                          const SearchOptions &options, const SearchRange &range) {
  return Enumeration(problem, facts, spec, options, range).run();
}

} // namespace dtc::plan
