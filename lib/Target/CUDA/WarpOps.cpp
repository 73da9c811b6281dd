#include "WarpOps.h"

#include "dtc/Kernels/ElementTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace dtc::cuda {

/// Bytes that a thread reads at most of a block's memory at once.
static constexpr int64_t kSharedAccess = 16;
static constexpr int32_t kAllLanes = -1;
/// Of shuffles: all 32 lanes exchange among each other.
static constexpr int32_t kWholeWarp = 31;

Value WarpOps::integer(int32_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
}

Value WarpOps::shuffleWord(Value word, int32_t mask) {
  return NVVM::ShflOp::create(builder, loc, word.getType(), integer(kAllLanes), word, integer(mask),
                              integer(kWholeWarp), NVVM::ShflKind::bfly, UnitAttr());
}

Value WarpOps::shuffleXor(Value value, int32_t mask) {
  Type type = value.getType(), i32 = builder.getI32Type(), i64 = builder.getI64Type();
  if (type.isF32() || type == i32)
    return shuffleWord(value, mask);
  if (type.isF64()) {
    Value bits = arith::BitcastOp::create(builder, loc, i64, value);
    return arith::BitcastOp::create(builder, loc, type, shuffleXor(bits, mask));
  }
  if (type.getIntOrFloatBitWidth() < 32) {
    Value wide = arith::ExtUIOp::create(builder, loc, i32, value);
    return arith::TruncIOp::create(builder, loc, type, shuffleWord(wide, mask));
  }
  Value half = arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(32));
  Value low = arith::TruncIOp::create(builder, loc, i32, value);
  Value high = arith::ShRUIOp::create(builder, loc, value, half);
  high = arith::TruncIOp::create(builder, loc, i32, high);
  low = arith::ExtUIOp::create(builder, loc, i64, shuffleWord(low, mask));
  high = arith::ExtUIOp::create(builder, loc, i64, shuffleWord(high, mask));
  high = arith::ShLIOp::create(builder, loc, high, half);
  return arith::OrIOp::create(builder, loc, low, high);
}

Value WarpOps::ballot(Value condition) {
  return NVVM::VoteSyncOp::create(builder, loc, builder.getI32Type(), integer(kAllLanes), condition,
                                  NVVM::VoteSyncKind::ballot);
}

Value WarpOps::match(Value value) {
  return NVVM::MatchSyncOp::create(builder, loc, builder.getI32Type(), integer(kAllLanes), value,
                                   NVVM::MatchSyncKind::any);
}

void WarpOps::meet() { NVVM::SyncWarpOp::create(builder, loc, integer(kAllLanes)); }

void WarpOps::meetInBlock() { NVVM::Barrier0Op::create(builder, loc); }

Value sharedArray(OpBuilder &builder, LLVM::LLVMFuncOp function, const Twine &name, Type stored,
                  int64_t count) {
  LLVM::GlobalOp array;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    // LLVM reads up to an aligned end: only what is there may be aligned more than its elements.
    const int64_t size = kernels::storageBytes(stored);
    const int64_t alignment = count * size % kSharedAccess == 0 ? kSharedAccess : size;
    array = LLVM::GlobalOp::create(builder, function.getLoc(),
                                   LLVM::LLVMArrayType::get(stored, count), /*isConstant=*/false,
                                   LLVM::Linkage::Internal, (function.getName() + name).str(),
                                   Attribute(), alignment, unsigned(NVVM::NVVMMemorySpace::Shared));
  }
  return LLVM::AddressOfOp::create(builder, function.getLoc(), array);
}

} // namespace dtc::cuda
