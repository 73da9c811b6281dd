// Settings of programs as keys and values, whatever form they are written in.
#pragma once

#include "dtc/Plan/Plan/Preset.h"

namespace dtc::plan {

struct ToolEntry {
  std::string key, value; ///< no value: a flag alone
  std::string place;      ///< "FILE:3", "the arguments"
};

Result<std::vector<ToolEntry>> toolEntries(SettingsForm form, const std::string &text,
                                           const std::string &name);

} // namespace dtc::plan
