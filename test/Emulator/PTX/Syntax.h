// PTX text as it is written: kernels, variables and instructions, not yet understood.
//
//     @%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1+8];
//
// is an Instruction with the guard %p1 and the name `ld.global.v2.b32`. It has two operands: a
// vector of two registers, and an address with the offset 8.
#pragma once

#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::emulator::ptx {

struct Operand {
  enum class Kind { Register, Integer, Float, Symbol, Address, Vector };
  Kind kind = Kind::Symbol;
  std::string name;       // of a register or symbol; of an address's base, empty for a number
  uint64_t bits = 0;      // an integer; the bits of a float literal
  unsigned floatBits = 0; // 32 for 0f…, 64 for 0d…
  int64_t offset = 0;     // of an address or a symbol
  std::vector<Operand> elements; // of a vector
};

struct Instruction {
  int line = 0;
  std::string guard; // empty where it is unconditional
  bool isGuardNegated = false;
  std::string name; // with its modifiers
  std::vector<Operand> operands;
};

struct Variable {
  int line = 0;
  std::string name;
  std::string space;  // global, shared, param
  uint64_t bytes = 0; // 0 for `.extern .shared name[]`
  uint64_t alignment = 1;
  bool isExternal = false;
  std::vector<uint8_t> initial; // empty for zeroes
};

struct Kernel {
  int line = 0;
  std::string name;
  std::vector<Variable> parameters;
  std::map<std::string, std::string> registers; // name -> type, as in .reg
  std::vector<Variable> variables;              // shared
  std::vector<Instruction> instructions;
  std::map<std::string, size_t> labels; // -> index of an instruction
  std::map<std::string, std::vector<std::string>> branchTargets;
  unsigned requiredThreads = 0; // .reqntid
};

struct Module {
  std::string version, target;
  std::vector<Variable> variables;
  std::vector<Kernel> kernels;
};

/// Throws a Fault that names the line of whatever isn't understood.
Module parse(std::string_view text);

/// Bytes of an element of a type such as `b32` or `f64`.
unsigned bytesOfType(std::string_view type, int line);

template <typename... Part> [[noreturn]] void syntaxError(int line, const Part &...parts) {
  throw Fault(cuda::CUDA_ERROR_INVALID_PTX, "PTX line ", line, ": ", parts...);
}

} // namespace dtc::emulator::ptx
