// The training programs that plans are made for (`dtc plan --for megatron-lm`), as plain data.
//
// A preset says what a program does (the switches of `software`) and what it can run. It also says
// how a plan is written in the program's own arguments or files. All of them are in Presets.yaml,
// whose head explains the keys. One of Megatron-LM's settings is
//
//   {key: --tensor-model-parallel-size, of: tp, about: tp}
//
// which writes `--tensor-model-parallel-size 4` for a plan with tp=4, with what tp means as its
// comment. Read backwards it gives tp=4.
#pragma once

#include "dtc/Plan/Plan/Abilities.h"
#include "dtc/Plan/Plan/Cluster.h"

namespace dtc::plan {

/// In which form a program takes its settings.
enum class SettingsForm : uint8_t {
  Flags,       ///< --key value
  Assignments, ///< key=value, arguments of a command
  Yaml,
  Toml,
  Json
};

/// When a setting is said: for facts with, or without, this value.
struct ToolCondition {
  std::string fact, value;
  bool isNegated = false;
  bool operator==(const ToolCondition &) const = default;
};

/// One setting of a program.
struct ToolSetting {
  std::string key;     ///< "--bf16", "parallelism.tensor_parallel_degree"; empty: see `program`
  std::string program; ///< what the user's own program has to say instead
  std::string fact;    ///< whose value it has; empty: it has `value`
  std::optional<std::string> value; ///< a constant; none without a fact: a flag alone
  /// The program's words for those of the fact; empty: they are the same.
  std::vector<std::pair<std::string, std::string>> words;
  std::vector<ToolCondition> when;
  std::string about; ///< the setting of the plan that the comment explains
  std::string why;   ///< another comment
  bool operator==(const ToolSetting &) const = default;
};

/// How far predictions for the program were off (docs/Validation.md).
struct PresetErrors {
  double stepTime = 0; ///< nine in ten runs are predicted within this share
  int64_t runs = 0;
  double memory = 0; ///< the share that plans keep free
  std::string reason;
  bool operator==(const PresetErrors &) const = default;
};

/// How ZeRO's groups may be chosen.
enum class ZeroGroups : uint8_t {
  None, ///< all of dp
  Any,
  Node,      ///< all of dp, or those in a node
  AlwaysNode ///< those in a node
};

struct Preset {
  std::string name, title, release, source, launch;
  SettingsForm form = SettingsForm::Flags;
  std::map<std::string, Software> software; ///< by the words of --precision that it has
  Abilities abilities;
  ZeroGroups zeroGroups = ZeroGroups::None;
  /// Facts of settings that aren't given.
  std::vector<std::pair<std::string, std::string>> otherwise;
  std::vector<ToolSetting> settings;
  std::vector<std::string> suites; ///< of bench/published, by which it is validated
  PresetErrors errors;
};

/// By name, in the order of the file.
const std::vector<Preset> &presets();
/// An unknown name is refused with the nearest, or with all.
Result<const Preset *> findPreset(const std::string &name);

/// What the program can run on a cluster: in how large groups ZeRO shares out is a node's
/// business.
Abilities abilitiesOn(const Preset &preset, const Cluster &cluster, int64_t devices);

/// The cluster, whose devices run the program. What its file says of software differs from that.
Result<Cluster> loadClusterFor(const std::string &nameOrFile, const Software &software);

/// All presets of a text like Presets.yaml.
Result<std::vector<Preset>> presetsFromYaml(const std::string &text, const std::string &file);

} // namespace dtc::plan
