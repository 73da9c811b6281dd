#include "dtc/Plan/Explain/Explain.h"

#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Plan/Search/Remedy.h"

#include <algorithm>

namespace dtc::plan {

/// Plans are not told apart by less.
static constexpr double kSameSpeed = 0.0005;

static Rival rivalOf(const Degrees &degrees, const Prediction &predicted,
                     const Explanation &explanation) {
  return {degrees, predicted.stepSeconds,
          differenceOf(predicted, degrees.samples(), explanation.predicted,
                       explanation.chosen.samples())};
}

namespace {

class Explainer {
public:
  Explainer(const Problem &problem, const Cluster &cluster, const SearchOptions &given,
            const SearchResult &chosen)
      : problem(problem), cluster(cluster), options(given) {
    options.adviseOtherwise = false;
    result.chosen = chosen.plan.degrees;
    result.predicted = chosen.predicted;
    for (const Alternative &alternative : chosen.alternatives)
      result.runnersUp.push_back(rivalOf(alternative.degrees, alternative.predicted, result));
  }

  Explanation run() {
    addChanges();
    addPins();
    return std::move(result);
  }

private:
  /// Its degrees, pinned. How many microbatches are kept is left to follow from memory.
  Spec everything() const {
    Spec spec = pinned(result.chosen, options.spec);
    spec.kept = options.spec.kept;
    return spec;
  }
  void change(Spec spec);
  void change(const std::string &name, const SearchOptions &asked);
  void changeGroups();
  void addChanges();
  void changeMesh();
  void changeSchedule();
  void addPins();
  std::optional<Rival> better(const Spec &spec) const;

  const Problem &problem;
  const Cluster &cluster;
  SearchOptions options;
  Explanation result;
};

} // namespace

//===-- changes -----------------------------------------------------------===//

/// What differs between two SPECs of whole plans is the name of the change. What other degrees
/// leave is dp's, so it is said after them.
static std::string changedText(const Spec &spec, const Spec &chosen) {
  std::vector<const Setting *> said;
  for (const Setting &setting : settings())
    said.push_back(&setting);
  std::stable_sort(said.begin(), said.end(), [](const Setting *a, const Setting *b) {
    auto place = [](const Setting *setting) {
      return setting->effort != Effort::Mesh ? 2 : setting == &settingOf(&Degrees::dp) ? 1 : 0;
    };
    return place(a) < place(b);
  });
  std::string text;
  for (const Setting *setting : said) {
    auto now = pinnedValue(*setting, spec);
    if (now && now != pinnedValue(*setting, chosen))
      text += (text.empty() ? "" : " ") + std::string(setting->name) + "=" + *now;
  }
  return text;
}

void Explainer::change(Spec spec) {
  std::string name = changedText(spec, everything());
  SearchOptions asked = options;
  asked.spec = std::move(spec);
  change(name, asked);
}

void Explainer::change(const std::string &name, const SearchOptions &asked) {
  Change change{name, std::nullopt, std::nullopt};
  if (auto found = search(problem, cluster, asked))
    change.rival = rivalOf(found->plan.degrees, found->predicted, result);
  else
    change.refusal = found.error();
  result.changes.push_back(std::move(change));
}

/// Tensor and pipeline parallelism twice and half as much, at the cost of data
/// parallelism.
void Explainer::changeMesh() {
  const Degrees &chosen = result.chosen;
  auto degree = [&](int64_t Degrees::*key, std::optional<int64_t> Spec::*pin) {
    if (options.spec.*pin || options.spec.dp)
      return;
    for (bool more : {false, true}) {
      if (more ? chosen.dp % 2 != 0 : chosen.*key % 2 != 0)
        continue;
      Spec spec = everything();
      spec.*pin = more ? chosen.*key * 2 : chosen.*key / 2;
      spec.dp = more ? chosen.dp / 2 : chosen.dp * 2;
      spec.zeroGroup = options.spec.zeroGroup;
      if (*spec.dp == 1 && !options.spec.zero)
        spec.zero = 0; // nothing to share
      else if (chosen.dp == 1)
        spec.zero = options.spec.zero; // which was none for want of ranks
      if (chosen.pp == 1 || *spec.pp == 1) {
        spec.schedule = options.spec.schedule;
        spec.chunks = options.spec.chunks;
      }
      change(std::move(spec));
    }
  };
  degree(&Degrees::tp, &Spec::tp);
  if (!options.executable)
    degree(&Degrees::pp, &Spec::pp);
}

/// The best plan whose stages all have the same mesh.
void Explainer::changeGroups() {
  SearchOptions asked = options;
  asked.unequalMeshes = false;
  asked.spec.groups.clear();
  change("the same mesh for all stages", asked);
}

void Explainer::changeSchedule() {
  const Degrees &chosen = result.chosen;
  if (chosen.pp == 1 || options.spec.schedule || options.spec.chunks)
    return;
  auto changeTo = [&](ScheduleKind kind, int64_t chunks) {
    Spec spec = everything();
    spec.schedule = kind;
    spec.chunks = chunks;
    change(std::move(spec));
  };
  for (ScheduleKind kind : schedule::allSchedules()) {
    const schedule::Descriptor &schedule = describe(kind);
    if (schedule.isSearched && schedule.mostChunks == 1 && kind != chosen.schedule)
      changeTo(kind, 1);
  }
  for (ScheduleKind kind : schedule::allSchedules())
    for (int64_t chunks : {chosen.chunks / 2, chosen.chunks * 2})
      if (chunks > 1 && describe(kind).isSearched && chunks <= describe(kind).mostChunks)
        changeTo(kind, chunks);
}

static int64_t mostCopies(const Degrees &degrees) {
  int64_t most = degrees.dp;
  for (const StageGroup &group : degrees.groups)
    most = std::max(most, group.dp);
  return most;
}

void Explainer::addChanges() {
  const Degrees &chosen = result.chosen;
  Spec all = everything();
  const bool isUniform = chosen.groups.empty();
  if (isUniform)
    changeMesh();
  else if (options.spec.groups.empty())
    changeGroups();
  if (chosen.tp > 1 && isUniform && !options.spec.sp) {
    all.sp = !chosen.sp;
    change(all);
    all.sp = options.spec.sp;
  }
  if (!options.executable && !options.spec.zero && mostCopies(chosen) * chosen.cp > 1)
    for (int zero = 0; zero <= 3; ++zero)
      if (zero != chosen.zero || chosen.zeroBlocks > 0) {
        all.zero = zero;
        change(all);
      }
  all.zero = everything().zero;
  if (!options.spec.microBatch && !options.fixedCalls && isUniform)
    for (int64_t size : {chosen.microBatch / 2, chosen.microBatch * 2}) {
      int64_t samples = chosen.microBatch * chosen.numMicrobatches;
      if (size < 1 || samples % size != 0)
        continue;
      all.microBatch = size;
      change(all);
    }
  all.microBatch = chosen.microBatch;
  changeSchedule();
  if (!options.executable && !options.spec.recompute)
    for (Recompute kind : {Recompute::None, Recompute::Selective, Recompute::Full})
      if (kind != chosen.recompute || chosen.recomputeBlocks > 0) {
        all.recompute = kind;
        change(all);
      }
  all.recompute = everything().recompute;
  if (!options.spec.offload && chosen.offload != Offload::None) {
    all.offload = Offload::None;
    change(all);
  }
}

//===-- pins --------------------------------------------------------------===//

/// The best plan under a SPEC, where it is faster than the chosen one, or fits
/// where that doesn't.
std::optional<Rival> Explainer::better(const Spec &spec) const {
  SearchOptions asked = options;
  asked.spec = spec;
  auto found = search(problem, cluster, asked);
  if (!found)
    return std::nullopt;
  Rival rival = rivalOf(found->plan.degrees, found->predicted, result);
  bool rescues = rival.fits() && !result.predicted.fits();
  bool faster = rival.fits() == result.predicted.fits() && rival.difference.share < -kSameSpeed;
  return rescues || faster ? std::optional(rival) : std::nullopt;
}

/// Whether rows that choose their experts have slots, which are those of the ranks that share
/// experts and sequences in this program. With other ranks it would be another problem.
static bool isBuiltForRanks(const Problem &problem) {
  return std::any_of(problem.ops.begin(), problem.ops.end(), [&](const Op &op) {
    return op.isGroupedProduct() && problem.values[op.operands[2]].shape.size() > 2;
  });
}

void Explainer::addPins() {
  const std::vector<Unpinned> pins = withoutEachPin(options.spec);
  const bool isBuilt = isBuiltForRanks(problem);
  for (const auto &[setting, without] : pins) {
    if (isBuilt && (setting == &settingOf(&Degrees::ep) || setting == &settingOf(&Degrees::cp)))
      continue;
    PinPrice price{settingText(*setting, result.chosen), better(without), ""};
    if (price.without)
      price.instead = settingText(*setting, price.without->degrees);
    result.pins.push_back(std::move(price));
  }
  if (pins.size() > 1 && !isBuilt)
    result.unpinned = better(withoutPins(options.spec));
}

Explanation explain(const Problem &problem, const Cluster &cluster, const SearchOptions &options,
                    const SearchResult &chosen) {
  return Explainer(problem, cluster, options, chosen).run();
}

} // namespace dtc::plan
