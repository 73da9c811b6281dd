// The settings of a plan: what a SPEC pins, files and JSON hold, and reports put into words.
//
// A setting is a member of Degrees, one of Spec if it can be pinned, and a row of the table in
// Settings.cpp. A new one needs nothing else. The row of `chunks` is
//
//   {.name = "chunks",
//    .member = Member<int64_t>{&Degrees::chunks, &Spec::chunks},
//    .effort = Effort::Pipeline,
//    .topic = Topic::Pipeline,
//    .about = [](const Degrees &d, const SentenceFacts &) { return "Each rank of the ... "; }}
//
// and everything else follows from it:
//
//   SPEC           chunks=2                                  parseSpec
//   plan file      plan: {..., chunks: 2, ...}               PlanWriter.cpp, PlanYaml.cpp
//   JSON           "chunks": 2                               Report/PlanJson.cpp
//   in a line      ... schedule=interleaved chunks=2 ...     summary, report::degreesText
//   on the page    Each rank of the pipeline holds 2 stages. Report/SummarySection.cpp
//   explanations   what another value or no pin would cost   Explain.cpp, Remedy.cpp
//
// The table is in the order of files and JSON.
#pragma once

#include "dtc/Plan/Plan/Spec.h"

#include <algorithm>
#include <limits>
#include <span>
#include <variant>

namespace dtc::plan {

/// Where the values of a setting are. `pin` is null for what can't be pinned, and `group` for what
/// all stage groups share.
template <typename T, typename Pin = std::optional<T>> struct Member {
  T Degrees::*plan = nullptr;
  Pin Spec::*pin = nullptr;
  T StageGroup::*group = nullptr;
};

using StageGroups = std::vector<StageGroup>;
/// The kinds of values: integers, a flag, words, and lists, which a SPEC can't say.
using SettingMember =
    std::variant<Member<int64_t>, Member<int>, Member<bool>, Member<ScheduleKind>,
                 Member<Recompute>, Member<Offload>, Member<TensorWeights>, Member<ContextExchange>,
                 Member<ExpertCapacity>, Member<Overflow>, Member<AxisOrder>,
                 Member<StageGroups, StageGroups>>;

/// The values that an integer may have.
struct Limits {
  int64_t least = 1, most = kMostDegree;
};
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// How much of a run changes with a setting. Where nothing fits, what changes least is tried first.
enum class Effort : uint8_t { Memory, Pipeline, Placement, Mesh };

/// What a setting is about, in the order of the page.
enum class Topic : uint8_t { Layers, Tokens, Pipeline, Placement, Memory, Batch };

/// Where a setting is said in one line.
enum class Said : uint8_t {
  Always,
  InFull,    ///< in a summary, and in words where the plan isn't plain
  IfSet,     ///< where it hasn't the default value
  WithOthers ///< as a part of what another setting says
};

/// Figures of a plan, as people read them, that sentences name.
struct SentenceFacts {
  std::string samples;    ///< of a step: "1,024"
  std::string hostMemory; ///< what offloaded states fill of it
};

struct Setting {
  /// In a SPEC, in plan.yaml and in JSON.
  const char *name;
  SettingMember member;

  /// Of an integer.
  Limits inSpec = {}, inFile = {};
  /// What a SPEC's value must be, in words. Null: as its kind has it.
  const char *expects = nullptr;
  bool isRequired = false; ///< in a file; what else is left out has the default value
  bool isRare = false;     ///< left out of files and JSON where it has the default value
  bool isOfTraining = false; ///< a forward pass alone has the default value
  /// The setting whose value 0 stands for. Null: 0 is 0.
  int64_t Degrees::*ifZero = nullptr;
  /// How many of the repeated blocks have its value; 0: all of them. Null: it isn't one of blocks.
  int64_t Degrees::*blocks = nullptr;

  Effort effort = Effort::Mesh;
  Topic topic = Topic::Layers;
  Said said = Said::InFull;
  /// Whether it says no more than a plain plan does. Null: if it has the default value.
  bool (*isPlain)(const Degrees &degrees) = nullptr;
  /// Whether a plan decides it, so that planning it again pins it. Null: always.
  bool (*isDecided)(const Degrees &degrees) = nullptr;
  /// What it means in this plan: sentences without the last full stop. Null: another setting's
  /// sentence tells it.
  std::string (*about)(const Degrees &degrees, const SentenceFacts &facts) = nullptr;
};

std::span<const Setting> settings();
/// Whether its value is a list, which a SPEC can't say.
bool isList(const Setting &setting);
/// Whether files and JSON leave it out, as they do with rare settings and empty lists.
bool isLeftOut(const Setting &setting, const Degrees &degrees);
/// In the order of `summary`, which tells the batch after recomputation.
std::vector<const Setting *> settingsAsSaid();
/// What stage groups have of their own: first how many ranks each has.
std::vector<const Setting *> groupSettings();
/// Whether it is how many blocks have the value of another setting.
bool isBlockCount(const Setting &setting);

/// The row of a member; each has one.
template <typename T> const Setting &settingOf(T Degrees::*member) {
  auto isOf = [&]<typename Other, typename Pin>(Member<Other, Pin> other) {
    if constexpr (std::is_same_v<T, Other>)
      return other.plan == member;
    else
      return false;
  };
  return *std::find_if(settings().begin(), settings().end(),
                       [&](const Setting &setting) { return std::visit(isOf, setting.member); });
}

//===-- values in words ---------------------------------------------------===//

/// "4", "on", "1f1b": the value of the member.
std::string valueText(const Setting &setting, const Degrees &degrees);
/// "dp=4|8", "zero_group=16", "dp=4|1 tp=1|2 pp=2(1|1)": what the plan has, in all stage groups.
std::string settingText(const Setting &setting, const Degrees &degrees);
/// " (3 blocks)", of a setting that counts blocks; "" where these are all.
std::string blocksText(const Setting &setting, const Degrees &degrees);
bool hasDefault(const Setting &setting, const Degrees &degrees);
bool isPlain(const Setting &setting, const Degrees &degrees);

//===-- pins --------------------------------------------------------------===//

/// Whether a SPEC in words can say it.
bool isSayable(const Setting &setting);
/// The value of a SPEC; what is wrong with it, or "".
std::string pinValue(const Setting &setting, const std::string &value, Spec &spec);
/// As the plan has it, if that decides it.
void pinAsPlanned(const Setting &setting, const Degrees &degrees, Spec &spec);
bool isPinned(const Setting &setting, const Spec &spec);
/// What is pinned, as a SPEC says it; nothing where it is open or not sayable.
std::optional<std::string> pinnedValue(const Setting &setting, const Spec &spec);
/// The first pin that a forward pass alone can't keep, as "zero=1"; or "".
std::string pinOfTraining(const Spec &spec);
void unpin(const Setting &setting, Spec &spec);
/// Gives a plan what is pinned.
void applyPin(const Setting &setting, const Spec &spec, Degrees &degrees);

} // namespace dtc::plan
