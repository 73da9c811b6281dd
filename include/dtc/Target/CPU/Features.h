// Processors as code generation and artifacts name them.
#pragma once

#include <string>
#include <vector>

namespace dtc::cpu {

struct Processor {
  std::string name;                  ///< LLVM's: "znver4", "x86-64-v3"
  std::vector<std::string> features; ///< LLVM's, those that are present
};

/// The processor of this machine.
Processor hostProcessor();

/// The features among `features` that generated code may depend on and that a
/// machine can be asked for ("avx2", "fma", "avx512f", as in /proc/cpuinfo), sorted.
std::vector<std::string> recordedFeatures(const std::vector<std::string> &features);

} // namespace dtc::cpu
