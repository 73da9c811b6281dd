// The table of a plan's settings.
#include "dtc/Plan/Plan/Settings.h"

#include <algorithm>

namespace dtc::plan {

static std::string text(int64_t number) { return std::to_string(number); }

static std::string countText(int64_t count, const char *one, const char *several) {
  return text(count) + " " + (count == 1 ? one : several);
}

//===-- sentences ---------------------------------------------------------===//

static std::string aboutZero(const Degrees &degrees, const SentenceFacts &) {
  if (degrees.zero == 1)
    return "ZeRO-1: the optimizer's state is stored in parts over the data-parallel ranks";
  if (degrees.zero == 2)
    return "ZeRO-2: optimizer state and gradients are stored in parts over the data-parallel ranks";
  return "ZeRO-3: optimizer state, gradients and parameters are stored in parts over the "
         "data-parallel ranks; parameters are gathered before each use";
}

static std::string aboutRecomputation(const Degrees &degrees, const SentenceFacts &) {
  if (degrees.recompute == Recompute::Selective)
    return "What attention keeps inside is computed again in the backward pass instead of being "
           "kept";
  return "Only the inputs of layers are kept for the backward pass, which computes the rest "
         "again: less memory, up to a third more arithmetic";
}

static std::string aboutContextExchange(const Degrees &degrees, const SentenceFacts &) {
  if (degrees.contextExchange == ContextExchange::Ring)
    return "For attention, ranks that share a sequence pass keys and values on to each other, "
           "part by part, instead of gathering them";
  return "For attention, ranks that share a sequence exchange tokens for heads, where these can "
         "be divided, instead of gathering keys and values";
}

static std::string aboutBatch(const Degrees &degrees, const SentenceFacts &facts) {
  const bool isUniform = degrees.groups.empty();
  return "A step's " + facts.samples + " samples are cut" +
         (isUniform ? ", on each copy of the model," : "") + " into " +
         countText(degrees.numMicrobatches, "microbatch", "microbatches") + " of " +
         (isUniform ? countText(degrees.microBatch, "sample", "samples")
                    : countText(degrees.dataRanks() * degrees.microBatch, "sample", "samples") +
                          ", which the copies of a stage share");
}

//===-- the table ---------------------------------------------------------===//

static std::vector<Setting> degreeSettings() {
  return {
      {.name = "dp",
       .member = Member<int64_t>{&Degrees::dp, &Spec::dp, &StageGroup::dp},
       .isRequired = true,
       .topic = Topic::Layers,
       .said = Said::Always,
       .about =
           [](const Degrees &d, const SentenceFacts &) {
             return "Data parallel: " + text(d.dp) +
                    " copies of the model work on different samples and sum their gradients once "
                    "a step";
           }},
      {.name = "tp",
       .member = Member<int64_t>{&Degrees::tp, &Spec::tp, &StageGroup::tp},
       .isRequired = true,
       .topic = Topic::Layers,
       .said = Said::Always,
       .about =
           [](const Degrees &d, const SentenceFacts &) {
             return "Tensor parallel: weight matrices are cut into " + text(d.tp) +
                    " parts, held by " + text(d.tp) +
                    " devices that work on the same samples and exchange partial results inside "
                    "every layer. It wants fast links";
           }},
      {.name = "pp",
       .member = Member<int64_t>{&Degrees::pp, &Spec::pp, &StageGroup::pp},
       .topic = Topic::Pipeline,
       .about =
           [](const Degrees &d, const SentenceFacts &) {
             return "Pipeline parallel: the layers are cut into stages on " + text(d.pp) +
                    " ranks; microbatches flow through them. Little is sent, but ranks wait for "
                    "each other";
           }},
      {.name = "cp",
       .member = Member<int64_t>{&Degrees::cp, &Spec::cp},
       .topic = Topic::Tokens,
       .about =
           [](const Degrees &d, const SentenceFacts &) {
             return "Context parallel: each sequence is cut into " + text(d.cp) +
                    " parts on as many devices";
           }},
      {.name = "ep",
       .member = Member<int64_t>{&Degrees::ep, &Spec::ep},
       .topic = Topic::Tokens,
       .about = [](const Degrees &d, const SentenceFacts &) {
         return "Expert parallel: experts are spread over " + text(d.ep) +
                " devices; tokens travel to theirs";
       }}};
}

/// How layers and tokens are split beside degrees.
static std::vector<Setting> splitSettings() {
  return {
      // A SPEC that doesn't pin it leaves it to the search, whatever a plan of it has.
      {.name = "sp",
       .member = Member<bool>{&Degrees::sp, &Spec::sp, &StageGroup::sp},
       .effort = Effort::Placement,
       .topic = Topic::Layers,
       .isPlain =
           [](const Degrees &d) {
             for (size_t group = 0; group < groupCount(d); ++group)
               if (inGroup(d, group).sp)
                 return false;
             return true;
           },
       .isDecided = [](const Degrees &) { return false; },
       .about = [](const Degrees &, const SentenceFacts &) -> std::string {
         return "Sequence parallel: what tensor parallelism would leave whole (norms, residual "
                "sums) is split along the sequence, which saves memory";
       }},
      {.name = "regather",
       .member = Member<bool>{&Degrees::regather, &Spec::regather},
       .effort = Effort::Memory,
       .topic = Topic::Memory,
       .said = Said::IfSet,
       .isDecided = [](const Degrees &d) { return d.regather; },
       .about = [](const Degrees &, const SentenceFacts &) -> std::string {
         return "What ranks gather of activations isn't kept for the backward pass, which gathers "
                "it again: less memory, more communication";
       }},
      {.name = "cp_by",
       .member = Member<ContextExchange>{&Degrees::contextExchange, &Spec::contextExchange},
       .effort = Effort::Placement,
       .topic = Topic::Tokens,
       .said = Said::IfSet,
       .isDecided = [](const Degrees &d) { return d.contextExchange != ContextExchange::Keys; },
       .about = aboutContextExchange},
      {.name = "tp_weights",
       .member = Member<TensorWeights>{&Degrees::tensorWeights, &Spec::tensorWeights},
       .effort = Effort::Placement,
       .topic = Topic::Layers,
       .said = Said::IfSet,
       .isDecided = [](const Degrees &d) { return d.tensorWeights == TensorWeights::Split; },
       .about = [](const Degrees &, const SentenceFacts &) -> std::string {
         return "Every weight matrix that tensor parallelism can cut is cut, also where exchanging "
                "activations would be faster";
       }}};
}

static std::string aboutCapacity(const Degrees &degrees, const SentenceFacts &) {
  if (degrees.capacity.isWorstCase())
    return "Ranks have slots for all rows that could choose their experts";
  if (degrees.capacity.inTiles)
    return "Ranks have slots for all rows that could choose their experts, and each expert begins "
           "a "
           "tile of slots";
  return "Each expert has slots for " + name(degrees.capacity) +
         " times the rows that would choose it if all were chosen equally often";
}

static std::string aboutOverflow(const Degrees &degrees, const SentenceFacts &) {
  if (degrees.overflow == Overflow::Error)
    return "A run ends where an expert has too few slots";
  return "Rows that find no slot with their expert are dropped; the log counts them";
}

/// Of experts that tokens look up.
static std::vector<Setting> expertSettings() {
  return {{.name = "capacity",
           .member = Member<ExpertCapacity>{&Degrees::capacity, &Spec::capacity},
           .isRare = true,
           .effort = Effort::Placement,
           .topic = Topic::Tokens,
           .said = Said::IfSet,
           .about = aboutCapacity},
          {.name = "overflow",
           .member = Member<Overflow>{&Degrees::overflow, &Spec::overflow},
           .isRare = true,
           .effort = Effort::Placement,
           .topic = Topic::Tokens,
           .said = Said::IfSet,
           .about = aboutOverflow}};
}

static std::vector<Setting> zeroSettings() {
  return {{.name = "zero",
           .member = Member<int>{&Degrees::zero, &Spec::zero},
           .inSpec = {0, 3},
           .inFile = {0, kNoLimit},
           .expects = "0, 1, 2 or 3",
           .isOfTraining = true,
           .blocks = &Degrees::zeroBlocks,
           .effort = Effort::Memory,
           .topic = Topic::Memory,
           .isDecided = [](const Degrees &d) { return d.zeroBlocks == 0; },
           .about = aboutZero},
          {.name = "zero_blocks",
           .member = Member<int64_t>{&Degrees::zeroBlocks},
           .inFile = {0, kNoLimit},
           .effort = Effort::Memory,
           .topic = Topic::Memory,
           .said = Said::WithOthers,
           .about =
               [](const Degrees &d, const SentenceFacts &) {
                 return "So in " + text(d.zeroBlocks) + " of the layers; elsewhere ZeRO-" +
                        text(d.zero - 1);
               }},
          {.name = "zero_group",
           .member = Member<int64_t>{&Degrees::zeroGroup, &Spec::zeroGroup},
           .inSpec = {0, kNoLimit},
           .inFile = {0, kNoLimit},
           .expects = "a number of ranks, or 0: all of dp",
           .ifZero = &Degrees::dp,
           .effort = Effort::Placement,
           .topic = Topic::Memory,
           .said = Said::IfSet,
           .isDecided = [](const Degrees &d) { return d.zeroGroup > 0; },
           .about =
               [](const Degrees &d, const SentenceFacts &) {
                 return "ZeRO's parts are spread over groups of " + text(d.zeroGroup) + " ranks";
               }}};
}

static std::vector<Setting> timetableSettings() {
  return {
      {.name = "schedule",
       .member = Member<ScheduleKind>{&Degrees::schedule, &Spec::schedule},
       .effort = Effort::Pipeline,
       .topic = Topic::Pipeline,
       .isPlain = [](const Degrees &d) { return d.pp <= 1; },
       .about = [](const Degrees &, const SentenceFacts &) -> std::string {
         return "In which order the ranks of the pipeline work; drawn below";
       }},
      {.name = "chunks",
       .member = Member<int64_t>{&Degrees::chunks, &Spec::chunks},
       .effort = Effort::Pipeline,
       .topic = Topic::Pipeline,
       .about =
           [](const Degrees &d, const SentenceFacts &) {
             return "Each rank of the pipeline holds " + text(d.chunks) + " stages";
           }},
      {.name = "kept",
       .member = Member<int64_t>{&Degrees::kept, &Spec::kept},
       .isRare = true,
       .isOfTraining = true,
       .effort = Effort::Memory,
       .topic = Topic::Pipeline,
       .said = Said::IfSet,
       .isDecided = [](const Degrees &d) { return d.kept > 0; },
       .about =
           [](const Degrees &d, const SentenceFacts &) {
             return "Each rank of the pipeline keeps activations of " +
                    countText(d.kept, "microbatch", "microbatches") + " at most";
           }},
      {.name = "micro_batch",
       .member = Member<int64_t>{&Degrees::microBatch, &Spec::microBatch, &StageGroup::microBatch},
       .effort = Effort::Memory,
       .topic = Topic::Batch,
       .isPlain = [](const Degrees &d) { return d.numMicrobatches <= 1; },
       .about = aboutBatch},
      {.name = "num_microbatches",
       .member = Member<int64_t>{&Degrees::numMicrobatches},
       .topic = Topic::Batch,
       .said = Said::WithOthers}};
}

static std::vector<Setting> memorySettings() {
  return {{.name = "recompute",
           .member = Member<Recompute>{&Degrees::recompute, &Spec::recompute},
           .isOfTraining = true,
           .blocks = &Degrees::recomputeBlocks,
           .effort = Effort::Memory,
           .topic = Topic::Memory,
           .isDecided = [](const Degrees &d) { return d.recomputeBlocks == 0; },
           .about = aboutRecomputation},
          {.name = "recompute_blocks",
           .member = Member<int64_t>{&Degrees::recomputeBlocks},
           .inFile = {0, kNoLimit},
           .effort = Effort::Memory,
           .topic = Topic::Memory,
           .said = Said::WithOthers,
           .about =
               [](const Degrees &d, const SentenceFacts &) {
                 return "In " + text(d.recomputeBlocks) + " of the layers";
               }},
          {.name = "offload",
           .member = Member<Offload>{&Degrees::offload, &Spec::offload},
           .isOfTraining = true,
           .effort = Effort::Placement,
           .topic = Topic::Memory,
           .about = [](const Degrees &, const SentenceFacts &facts) {
             return "The optimizer's state lies in the hosts' memory: " + facts.hostMemory;
           }}};
}

static std::vector<Setting> placementSettings() {
  return {{.name = "order",
           .member = Member<AxisOrder>{&Degrees::order, &Spec::order},
           .effort = Effort::Placement,
           .topic = Topic::Placement,
           .said = Said::IfSet,
           .isPlain = hasDefaultPlacement,
           .about = [](const Degrees &, const SentenceFacts &) -> std::string {
             return "How the axes lie on the devices, innermost first: ranks of the first are "
                    "neighbours";
           }},
          {.name = "stage_groups",
           .member = Member<StageGroups, StageGroups>{&Degrees::groups, &Spec::groups},
           .said = Said::WithOthers}};
}

std::span<const Setting> settings() {
  static const std::vector<Setting> table = [] {
    std::vector<Setting> all;
    for (auto part : {degreeSettings, splitSettings, expertSettings, zeroSettings,
                      timetableSettings, memorySettings, placementSettings})
      for (Setting &setting : part())
        all.push_back(setting);
    return all;
  }();
  return table;
}

//===-- parts of it -------------------------------------------------------===//

bool isList(const Setting &setting) {
  return std::holds_alternative<Member<StageGroups, StageGroups>>(setting.member);
}

bool isLeftOut(const Setting &setting, const Degrees &degrees) {
  return (setting.isRare || isList(setting)) && hasDefault(setting, degrees);
}

bool isBlockCount(const Setting &setting) {
  return std::any_of(settings().begin(), settings().end(), [&](const Setting &other) {
    return other.blocks && &settingOf(other.blocks) == &setting;
  });
}

std::vector<const Setting *> settingsAsSaid() {
  std::vector<const Setting *> said, batch;
  for (const Setting &setting : settings())
    (setting.topic == Topic::Batch ? batch : said).push_back(&setting);
  auto last = std::find(said.begin(), said.end(), &settingOf(&Degrees::recomputeBlocks));
  said.insert(last + 1, batch.begin(), batch.end());
  return said;
}

std::vector<const Setting *> groupSettings() {
  const Setting *ranks = &settingOf(&Degrees::pp);
  std::vector<const Setting *> result = {ranks};
  for (const Setting &setting : settings())
    if (&setting != ranks &&
        std::visit([](auto member) { return member.group != nullptr; }, setting.member))
      result.push_back(&setting);
  return result;
}

} // namespace dtc::plan
