// The table of instructions: what each computes, and how wide its operands are.
//
// A row is a name as PTX spells it, a signature, and a function of whole registers, which are
// vectors of 32 lanes (Lanes.h):
//
//     enter<kMad, Ternary>(table, {"mad.lo.s", "mad.lo.u"}, Words());
//
// enters mad.lo.s16, .s32 and .s64, and likewise .u16 to .u64. A name that isn't in the table is an
// error when a module is loaded. It has what LLVM makes of all that dtc's kernels may compute.
#pragma once

#include "Emulator/Interpreter/Warp.h"

#include <initializer_list>

namespace dtc::emulator {

/// Instead of an operand's width: it is an address.
inline constexpr unsigned kAddress = ~0u;

/// An instruction fits a row where its operands are as wide.
struct InstructionRow {
  Handler execute;
  unsigned destinations;       // the first operands are written
  std::vector<unsigned> bytes; // of each operand; 0 for a predicate
  Space space = Space::Global; // of the address
  unsigned accessed = 0;       // bytes there
};
using InstructionTable = std::multimap<std::string, InstructionRow>;

void addArithmetic(InstructionTable &table);
void addLogic(InstructionTable &table);
void addConversions(InstructionTable &table);
void addWarpInstructions(InstructionTable &table);
void addMatrixInstructions(InstructionTable &table);
void addMemoryInstructions(InstructionTable &table);

/// How registers of a type are read and written. Halves are computed on as floats.
template <typename T> struct Register {
  static constexpr unsigned bytes = sizeof(T);
  static Lanes<T> read(const Warp &warp, OperandCode place) { return warp.read<T>(place); }
  static void write(Warp &warp, OperandCode place, Lanes<T> value, uint32_t mask) {
    warp.write<T>(place, value, mask);
  }
};

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <HalfKind Kind> struct HalfRegister {
  static constexpr unsigned bytes = 2;
  static Lanes<float> read(const Warp &warp, OperandCode place) {
    return widen<Kind>(warp.read<uint16_t>(place));
  }
  static void write(Warp &warp, OperandCode place, Lanes<float> value, uint32_t mask) {
    warp.write<uint16_t>(place, narrow<Kind>(value), mask);
  }
};
template <> struct Register<F16> : HalfRegister<HalfKind::F16> {};
template <> struct Register<BF16> : HalfRegister<HalfKind::BF16> {};

/// A predicate: a bit for each lane.
template <> struct Register<bool> {
  static constexpr unsigned bytes = 0;
  static uint32_t read(const Warp &warp, OperandCode place) { return warp.readPredicate(place); }
  static void write(Warp &warp, OperandCode place, uint32_t value, uint32_t mask) {
    warp.writePredicate(place, value, mask);
  }
};

/// A row for a handler with the signature of what it computes.
template <typename Signature> struct RowOf;
template <typename R, typename... A> struct RowOf<R(A...)> {
  static InstructionRow with(Handler handler) {
    if constexpr (std::is_void_v<R>)
      return {handler, 0, {Register<A>::bytes...}};
    else
      return {handler, 1, {Register<R>::bytes, Register<A>::bytes...}};
  }
};

/// The handler that applies a function to its operands' registers.
template <auto F, typename Signature> struct Applied;
template <auto F, typename R, typename... A> struct Applied<F, R(A...)> {
  static void execute(Warp &warp, const Instruction &at, uint32_t mask) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      Register<R>::write(warp, at.operands[0], F(Register<A>::read(warp, at.operands[I + 1])...),
                         mask);
    }(std::index_sequence_for<A...>());
  }
};

template <typename... T> struct Types {};
using Words = Types<uint16_t, uint32_t, uint64_t>;
using Signed = Types<int16_t, int32_t, int64_t>;
using Floats = Types<float, double, F16>;

template <typename T> using Unary = T(T);
template <typename T> using Binary = T(T, T);
template <typename T> using Ternary = T(T, T, T);
template <typename T> using Compared = bool(T, T);
template <typename T> using Selected = T(T, T, bool);
template <typename T> using Shifted = T(T, uint32_t);
template <typename T> using Counted = uint32_t(T);

using Names = std::initializer_list<std::string>;

/// Enters one function under names that end with the bits of each type.
template <auto F, template <typename> typename Signature, typename... T>
void enter(InstructionTable &table, Names names, Types<T...>) {
  for (const std::string &name : names)
    (table.emplace(name + std::to_string(8 * sizeof(T)),
                   RowOf<Signature<T>>::with(Applied<F, Signature<T>>::execute)),
     ...);
}

/// Enters one function under its whole name.
template <auto F, typename Signature>
void enterOne(InstructionTable &table, const std::string &name) {
  table.emplace(name, RowOf<Signature>::with(Applied<F, Signature>::execute));
}

/// The element of a vector.
template <typename V> using ElementOf = std::remove_cvref_t<decltype(std::declval<V>()[0])>;

/// The integer of twice the width.
template <typename T> struct WiderOf;
template <> struct WiderOf<uint16_t> : std::type_identity<uint32_t> {};
template <> struct WiderOf<int16_t> : std::type_identity<int32_t> {};
template <> struct WiderOf<uint32_t> : std::type_identity<uint64_t> {};
template <> struct WiderOf<int32_t> : std::type_identity<int64_t> {};
template <> struct WiderOf<uint64_t> : std::type_identity<unsigned __int128> {};
template <> struct WiderOf<int64_t> : std::type_identity<__int128> {};
template <typename T> using Wider = typename WiderOf<T>::type;

} // namespace dtc::emulator
