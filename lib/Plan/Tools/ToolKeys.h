// Keys of programs' settings, and when these are said.
#pragma once

#include "dtc/Plan/Tools/ToolSettings.h"

#include <sstream>

namespace dtc::plan {

/// "a.b.c" as its names.
inline std::vector<std::string> keyPath(const std::string &key) {
  std::vector<std::string> names;
  std::istringstream stream(key);
  for (std::string name; std::getline(stream, name, '.');)
    names.push_back(name);
  return names;
}

/// Whether the setting is said for these facts.
bool holds(const ToolSetting &setting, const Facts &facts);

} // namespace dtc::plan
