// The memory accesses of a warp's lanes: bounds, alignment, and what they touch.
#pragma once

#include "Emulator/Interpreter/Block.h"
#include "Emulator/PTX/Decoder.h"

namespace dtc::emulator {

enum class Space : uint8_t { Generic, Global, Shared, Local, Parameter };

/// The bytes of each lane, one lane after another, at most 16 a lane.
struct LaneBytes {
  alignas(64) std::byte bytes[kLanes * 16];
};

/// The addresses that an instruction's lanes access: its base in an operand, and its offset.
Lanes<uint64_t> laneAddresses(const Warp &warp, const Instruction &at, unsigned operand);

/// Reads `bytes` for each lane of a mask.
void readLanes(Warp &warp, const Instruction &at, uint32_t mask, Space space,
               const Lanes<uint64_t> &addresses, unsigned bytes, LaneBytes &data);

/// Writes them; of two lanes with the same address the higher one stays, as it may on a device.
void writeLanes(Warp &warp, const Instruction &at, uint32_t mask, Space space,
                const Lanes<uint64_t> &addresses, unsigned bytes, const LaneBytes &data);

/// Where one lane's bytes lie, for an atomic operation, which reads and writes them.
std::byte *atomicPlace(Warp &warp, const Instruction &at, unsigned lane, Space space,
                       uint64_t address, unsigned bytes);

/// Takes the modifiers that name the space of an address.
Space takeSpace(InstructionBuilder &builder);

/// The name under which variables of a space are declared.
std::string_view nameOf(Space space);

} // namespace dtc::emulator
