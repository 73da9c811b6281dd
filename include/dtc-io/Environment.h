// Variables of the environment that take few values.
//
//   DTC_CUDNN_PARTS=0      valueOf(Variable::CudnnParts) is "0"
//   DTC_CUDNN_PARTS=       counts as not set
//   DTC_CUDNN_PARTS=no     findWrongVariable() is "DTC_CUDNN_PARTS: expected 0 or 1, got 'no'"
//
// Whoever uses a program or folder that another variable names says what is wrong with that one.
#pragma once

#include <cstdint>
#include <string>

namespace dtc::io {

enum class Variable : uint8_t {
  Collectives,       ///< when a processor's collectives are carried out: start, wait or thread
  CublasLtEpilogues, ///< 0: products on GPUs have no epilogues
  CudnnParts,        ///< 0: attention on GPUs reads no parts of tensors
  ShareGpu,          ///< 1: all ranks share a GPU
  Calibration,       ///< the file of this processor's measured times, or off
  KernelCache,       ///< the folder of compiled kernels, or off
  CublasLtCache,     ///< the folder of timed algorithms, or off
};

/// What is wrong with one that is set; empty: nothing. Commands ask before they do anything.
std::string findWrongVariable();
/// Empty where it isn't set.
std::string valueOf(Variable variable);

} // namespace dtc::io
