// What each instruction of a function touches: the values it says that it reads
// and writes, at the places that its operands have.
//
// `Instruction.reads` and `writes` list values in the order of the operands:
//
//   Launch                  arguments, then results
//   Matmul                  reads a, b; writes c
//   Conv                    reads input and weight; writes output. For a gradient, output and
//                           what it is the gradient of change places.
//   Attention               reads its tensors, a bias last; writes those that it computes
//   Collective              reads all sources; writes all targets
//   Message                 reads (Send) or writes (Receive) all buffers
//   GroupPosition, Zero     write the target
//   Copy                    reads the source, writes the target
//
// A value is written once and as a whole. What is read may be a part of it. Attention may write
// parts of one value, which it then lists for each of them: together they are the whole. Several
// copies may each write a part of one value. Who reads it finds bytes that none of them wrote.
#pragma once

#include "dtc-rt/Program/CallNumbers.h"

#include <map>
#include <string>
#include <vector>

namespace dtc::replay {

namespace fbs = rt::fbs;
using rt::numberOf;

/// Addresses in both arenas as one: that of the host begins here.
inline constexpr uint64_t kHostStart = uint64_t(1) << 62;

inline uint64_t addressOf(const fbs::Ref &ref, const fbs::Call &call) {
  uint64_t start = ref.space() == fbs::Space::Host ? kHostStart : 0;
  return start + rt::offsetOf(ref, call);
}

uint64_t sizeOf(fbs::DType dtype);

/// A range that a value is read from or written to.
struct Access {
  fbs::Ref ref;
  uint64_t bytes = 0;
  uint32_t value = 0;
  /// Of a result that may replace an operand in its place: the bytes of the operand.
  uint64_t takesOver = 0;
};

struct InstructionAccesses {
  const fbs::InstructionT *instruction = nullptr;
  uint32_t reads = 0, writes = 0, end = 0; ///< [reads, writes) and [writes, end) of the accesses
  Access scratch;                          ///< 0 bytes: none
};

struct FunctionAccesses {
  std::vector<Access> accesses;
  std::vector<InstructionAccesses> instructions;
};

/// Fills in the accesses. Empty, or what is wrong with the function itself: operands that
/// aren't where their values are, values written twice, places outside the arena.
class AccessCollector {
public:
  /// `largest`: the largest number of any call of the function, for each scope.
  AccessCollector(const fbs::ProgramT &program, const fbs::FunctionT &function,
                  const fbs::Call &largest)
      : program(program), function(function), largest(largest) {}

  std::string collect(FunctionAccesses &result);

private:
  /// An operand; without bytes it is as large as its value.
  struct Operand {
    const fbs::Ref *ref = nullptr;
    uint64_t bytes = 0;
    bool hasBytes = false;
    const fbs::TensorT *part = nullptr; ///< of attention: it may be a part of its value
    bool isCopied = false;              ///< so may be what a copy writes
    static Operand of(const fbs::TensorT &tensor);
  };
  struct Operands {
    std::vector<Operand> reads, writes;
    fbs::Ref scratch;
    uint64_t scratchBytes = 0;
    void setScratch(const fbs::Ref *ref, uint64_t bytes);
  };

  std::string checkValues() const;
  std::string checkPlace(const fbs::Ref &ref, uint64_t bytes) const;
  std::string addInstruction(const fbs::InstructionT &instruction);
  std::string operandsOf(const fbs::InstructionT &instruction, Operands &operands) const;
  std::string operandsOf(const fbs::LaunchT &op, size_t numReads, Operands &operands) const;
  std::string operandsOf(const fbs::MatmulT &op, Operands &operands) const;
  std::string operandsOf(const fbs::ConvT &op, Operands &operands) const;
  std::string operandsOf(const fbs::AttentionT &op, Operands &operands) const;
  std::string operandsOf(const fbs::CollectiveT &op, Operands &operands) const;
  std::string operandsOf(const fbs::MessageT &op, Operands &operands) const;
  std::string checkGroup(uint32_t group) const;
  std::string addRead(const Operand &operand, uint32_t value);
  std::string addWrite(const Operand &operand, uint32_t value);
  std::string addCopied(const Operand &operand, uint32_t value);
  std::string addResult(const std::vector<Operand> &operands, const std::vector<uint32_t> &values,
                        size_t i);
  void markTakeovers(const fbs::InstructionT &instruction, const InstructionAccesses &entry);

  const fbs::ProgramT &program;
  const fbs::FunctionT &function;
  fbs::Call largest;
  FunctionAccesses *out = nullptr;
  std::vector<bool> written; ///< by value; arguments too
  using Stretch = std::pair<uint64_t, uint64_t>;   ///< where it begins and ends
  std::map<uint32_t, std::vector<Stretch>> copied; ///< by value: what copies have written of it
};

/// The instruction that writes a value of the function, or null.
const fbs::InstructionT *writerOf(const fbs::FunctionT &function, uint32_t value);

/// "instruction 3 'name'"
std::string describe(const fbs::FunctionT &function, const fbs::InstructionT &instruction);

} // namespace dtc::replay
