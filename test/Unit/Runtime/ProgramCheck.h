// What is wrong with a program, as the runtime says it at load.
#pragma once

#include "TestArtifact.h"

#include "dtc-rt/Program/ProgramView.h"

#include <gtest/gtest.h>

namespace dtc::rt::test {

inline constexpr uint64_t kArena = 4096;

inline std::string check(const fbs::ProgramT &program, const Json &manifest) {
  std::string bytes = serialized(program);
  Result<ProgramView> view = ProgramView::open(bytes, parsed(manifest));
  if (view)
    return {};
  EXPECT_EQ(view.status().category(), ErrorCategory::InputRefused);
  return view.status().message();
}

inline Json meshOf4() { return emptyManifest({{"dp", 2}, {"tp", 2}}); }

} // namespace dtc::rt::test
