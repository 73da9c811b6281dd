// A warp: its registers, and which of its lanes are where.
#pragma once

#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Lanes.h"
#include "Emulator/Interpreter/Program.h"

namespace dtc::emulator {

class Block;

class Warp {
public:
  enum class State { Running, AtBarrier, Exited };

  Warp(Block &block, unsigned index, std::byte *registers, const Program &program);

  /// Prepares the warp for the block's present position.
  void start(uint32_t lanes);

  /// Executes until a barrier or until all lanes have exited; returns instructions times lanes.
  uint64_t run();

  template <typename T> Lanes<T> read(OperandCode operand) const {
    Lanes<T> value;
    std::memcpy(&value, files[operand >> 31] + (operand & ~kConstant), sizeof(value));
    return value;
  }

  template <typename T> void write(OperandCode operand, Lanes<T> value, uint32_t mask) {
    std::byte *place = registers() + operand;
    if (mask != kAllLanes)
      value = select<T>(mask, value, read<T>(operand));
    std::memcpy(place, &value, sizeof(value));
  }

  uint32_t readPredicate(OperandCode operand) const {
    uint32_t value;
    std::memcpy(&value, files[operand >> 31] + (operand & ~kConstant), sizeof(value));
    return value;
  }

  void writePredicate(OperandCode operand, uint32_t value, uint32_t mask) {
    value = (readPredicate(operand) & ~mask) | (value & mask);
    std::memcpy(registers() + operand, &value, sizeof(value));
  }

  /// Ends the kernel: "kernel softmax, line 40 (ld.global…), block 3, thread 17: …".
  template <typename... Part>
  [[noreturn]] void fail(int code, const Instruction &at, unsigned lane,
                         const Part &...what) const {
    throw Fault(code, place(at, lane), what...);
  }

  // Of the lanes of a mask. The path that is carried out is at the next instruction already.
  void branch(const Instruction &at, uint32_t taken);
  void branchIndirect(const Instruction &at, uint32_t mask);
  void exit(const Instruction &at, uint32_t lanes);
  void arrive(const Instruction &at, uint32_t mask);
  /// The handler that calls one of these.
  template <auto Member> static void handle(Warp &warp, const Instruction &at, uint32_t mask) {
    (warp.*Member)(at, mask);
  }

  Block &block() { return owner; }
  unsigned index() const { return number; }
  State state() const { return current; }
  uint32_t liveLanes() const { return live; }
  unsigned firstThread() const { return number * kLanes; }

  /// Counts the warp's own barriers, for shared memory's races between lanes.
  uint32_t epoch = 0;
  const Instruction *waitsAt = nullptr; // the barrier

private:
  struct Path {
    uint32_t pc, reconvergence, mask;
  };

  std::string place(const Instruction &at, unsigned lane) const;
  std::byte *registers() { return const_cast<std::byte *>(files[0]); }
  void part(uint32_t reconvergence, const Path *paths, size_t count);
  void popReconverged();

  Block &owner;
  const Program &program;
  unsigned number;
  const std::byte *files[2]; // registers and constants
  std::vector<Path> paths;   // the last is carried out
  uint32_t live = 0;
  State current = State::Exited;
};

} // namespace dtc::emulator
