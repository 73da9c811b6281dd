#include "ProductTiles.h"
#include "KernelPlan.h"
#include "WarpOps.h"

#include "dtc/Kernels/ElementTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cuda {

using Values = SmallVector<Value>;

/// Elements that a thread reads at once, and what rows of the block's memory are longer by: eight
/// neighbouring rows then lie in different banks.
static constexpr int64_t kAtOnce = 8, kRowPadding = 8;
/// Of a warp: rows, and the sizes of a product of the tensor cores.
static constexpr int64_t kWarpRows = 32, kWarps = ProductTiles::kThreads / kWarp, kCoreRows = 16,
                         kCoreColumns = 8, kCoreDepth = 16;
/// Products of fewer rows would leave tensor cores idle; fewer terms are no sum worth the copies.
static constexpr int64_t kLeast = 8;

ProductTiles::ProductTiles(exec::GroupedMatmulOp op) {
  const int64_t m = op.getMnk()[0], n = op.getMnk()[1];
  rows = m > 64 ? 128 : 64;
  rowTiles = ceilDivide(m, rows);
  columnTiles = ceilDivide(n, kColumns);
  groups = op.addsUp() ? static_cast<int64_t>(op.getCount()) : 1;
  for (auto [size, stride] : llvm::zip(op.getBatch(), op.getResultStrides()))
    if (!op.addsUp() || stride != 0)
      groups *= size;
}

/// Whether accesses of an operand's rows are whole: one of its two dimensions lies side by side.
static bool readsWhole(ArrayRef<int64_t> strides, int64_t experts, int64_t rows, int64_t columns) {
  const int64_t inner = strides.back() == 1 ? columns : strides.drop_back().back() == 1 ? rows : 0;
  return inner > 0 && inner % kAtOnce == 0 && experts % kAtOnce == 0 &&
         llvm::all_of(strides, [](int64_t stride) { return stride == 1 || stride % kAtOnce == 0; });
}

/// Whether tensor cores have such products. Their sums are in f32.
static bool haveTypes(Type operand, Type result) {
  return (operand.isBF16() || operand.isF16()) && (result == operand || result.isF32());
}

bool multipliesTiles(const kernels::GroupedForm &form, Type operand, Type result) {
  const int64_t summed = form.experts[2] != 0 ? form.k : form.m;
  return haveTypes(operand, result) && summed >= kLeast &&
         readsWhole(form.strides[0], form.experts[0], form.m, form.k) &&
         readsWhole(form.strides[1], form.experts[1], form.k, form.n);
}

bool multipliesTiles(exec::GroupedMatmulOp op) {
  const int64_t m = op.getMnk()[0], n = op.getMnk()[1], k = op.getMnk()[2];
  return haveTypes(getElementTypeOrSelf(op.getLhs()), getElementTypeOrSelf(op.getResult())) &&
         readsWhole(op.getLhsStrides(), op.getExperts()[0], m, k) &&
         readsWhole(op.getRhsStrides(), op.getExperts()[1], k, n);
}

namespace {

/// lhs or rhs: a tile of it is `tile` rows of lhs, or columns of rhs, by a step along k.
struct Side {
  Value pointer;        ///< of the operand
  Value shared;         ///< of two tiles in the block's memory
  int64_t tile, extent; ///< of what isn't summed
  int64_t outer, depth; ///< strides, of that and of k
  bool isLhs;

  bool isDeepInside() const { return depth == 1; }
  /// Of the block's memory: elements of a row, and of a tile.
  int64_t rowLength() const { return (isDeepInside() ? ProductTiles::kStep : tile) + kRowPadding; }
  int64_t elements() const { return rowLength() * (isDeepInside() ? tile : ProductTiles::kStep); }
  int64_t accesses() const { return tile * ProductTiles::kStep / kAtOnce / ProductTiles::kThreads; }
};

class TileEmitter {
public:
  TileEmitter(exec::GroupedMatmulOp op, LLVM::LLVMFuncOp function, ValueRange pointers, Value block,
              Value thread, OpBuilder &builder)
      : op(op), function(function), pointers(pointers), block(block), thread(thread),
        builder(builder), loc(op.getLoc()), tiles(op), element(getElementTypeOrSelf(op.getLhs())),
        i32(builder.getI32Type()), i64(builder.getI64Type()) {}

  void emit();

private:
  // Numbers.
  Value number(int64_t value, Type type) {
    return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
  }
  Value constant(int64_t value) { return number(value, i32); }
  Value wide(Value value) {
    return value.getType() == i64 ? value
                                  : arith::ExtUIOp::create(builder, loc, i64, value).getResult();
  }
  template <typename Op> Value binary(Value a, Value b) { return Op::create(builder, loc, a, b); }
  Value plus(Value a, Value b) { return binary<arith::AddIOp>(a, b); }
  Value plus(Value a, int64_t b) { return b == 0 ? a : plus(a, number(b, a.getType())); }
  Value times(Value a, int64_t b) {
    return b == 1 ? a : binary<arith::MulIOp>(a, number(b, a.getType()));
  }
  Value over(Value a, int64_t b) {
    return b == 1 ? a : binary<arith::DivUIOp>(a, number(b, a.getType()));
  }
  Value modulo(Value a, int64_t b) { return binary<arith::RemUIOp>(a, number(b, a.getType())); }
  Value isBelow(Value a, int64_t b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, a,
                                 number(b, a.getType()));
  }
  Value both(Value a, Value b) { return a && b ? binary<arith::AndIOp>(a, b) : a ? a : b; }
  Value address(Value base, Value offset, Type type) {
    return LLVM::GEPOp::create(builder, loc, base.getType(), type, base,
                               ArrayRef<LLVM::GEPArg>{offset}, LLVM::GEPNoWrapFlags::inbounds);
  }

  // Tiles.
  Value sharedArray(StringRef name, Type type, int64_t count) {
    return cuda::sharedArray(builder, function, name, type, count);
  }
  void makeSides();
  /// Where an access of a thread lies in a tile: outside of k, and along it.
  std::pair<Value, Value> placeOf(const Side &side, int64_t access);
  /// What a thread reads of the step that begins at `depth`, from `base` on.
  Values read(const Side &side, Value base, Value first, Value depth);
  void keep(const Side &side, Value buffer, ValueRange accesses);
  /// Of the tensor cores: a matrix of lhs, or two of rhs, from `outer` and `depth` in a tile.
  Values matrices(const Side &side, Value buffer, Value outer, int64_t depth);
  Value multiply(ValueRange a, ValueRange b, ValueRange sums);
  /// The sums, to which products of a step in the block's memory are added.
  Values addStep(Value buffer, Values sums);
  /// The sums, to which a product is added, whose operands begin at `bases`.
  Values addProduct(std::array<Value, 2> bases, Values sums);

  // Groups.
  /// Where tensors begin for a place of the batch.
  Value offsetOf(ArrayRef<Value> places, ArrayRef<int64_t> strides);
  Values delinearize(Value number, ArrayRef<int64_t> sizes);
  Value choiceAt(Value number);
  /// Of one product, or of all of an expert.
  Values sumsOfProduct(Value group, Value &resultBase);
  Values sumsOfExpert(Value group, Value &resultBase);
  void listMatches(Value first, Value expert, ArrayRef<Value> kept, int64_t count);
  Values addListed(Value first, ArrayRef<Value> kept, Values sums);
  /// Places along the dimensions of the batch: `kept` where the result has them, else of `number`.
  Values placesOf(ArrayRef<Value> kept, Value number);
  SmallVector<int64_t> sizesOf(bool ofKept);
  bool isKept(size_t dim) { return op.getResultStrides()[dim] != 0; }
  Values zeros() {
    return Values(rowsOfWarp() * columnsOfWarp() * 4,
                  arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0)));
  }
  void store(Value base, ValueRange sums);

  // A warp's share of the tile, in matrices of the tensor cores.
  int64_t warpsAlongRows() const { return tiles.rows / kWarpRows; }
  int64_t warpColumns() const { return ProductTiles::kColumns / (kWarps / warpsAlongRows()); }
  static int64_t rowsOfWarp() { return kWarpRows / kCoreRows; }
  int64_t columnsOfWarp() const { return warpColumns() / kCoreColumns; }

  exec::GroupedMatmulOp op;
  LLVM::LLVMFuncOp function;
  ValueRange pointers;
  Value block, thread;
  OpBuilder &builder;
  Location loc;
  const ProductTiles tiles;
  Type element, i32, i64;
  Side sides[2];
  Value lane, firstRow, firstColumn; ///< of the warp, within the tile
  Value tileRow, tileColumn;         ///< where the tile begins
  Value masks;                       ///< of choices: a word for each warp
};

} // namespace

void TileEmitter::makeSides() {
  const int64_t m = op.getMnk()[0], n = op.getMnk()[1];
  ArrayRef<int64_t> lhs = op.getLhsStrides(), rhs = op.getRhsStrides();
  sides[0] = {pointers[0], {}, tiles.rows, m, lhs.drop_back().back(), lhs.back(), true};
  sides[1] = {pointers[1], {}, ProductTiles::kColumns, n, rhs.back(), rhs.drop_back().back(),
              false};
  sides[0].shared = sharedArray("_lhs", builder.getI16Type(), 2 * sides[0].elements());
  sides[1].shared = sharedArray("_rhs", builder.getI16Type(), 2 * sides[1].elements());
}

std::pair<Value, Value> TileEmitter::placeOf(const Side &side, int64_t access) {
  Value own = plus(thread, access * ProductTiles::kThreads);
  const int64_t inRow = (side.isDeepInside() ? ProductTiles::kStep : side.tile) / kAtOnce;
  Value row = over(own, inRow), inner = times(modulo(own, inRow), kAtOnce);
  return side.isDeepInside() ? std::pair(row, inner) : std::pair(inner, row);
}

/// Beyond the operand's end zeros stand for it. What is read instead is where it begins.
Values TileEmitter::read(const Side &side, Value base, Value first, Value depth) {
  auto type = VectorType::get({4}, i32);
  Value none = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, builder.getI32IntegerAttr(0)));
  Values accesses;
  for (int64_t i = 0; i < side.accesses(); ++i) {
    auto [outer, inDepth] = placeOf(side, i);
    Value row = plus(outer, first), step = plus(inDepth, depth);
    Value exists = both(isBelow(row, side.extent), isBelow(step, op.getMnk()[2]));
    Value offset = plus(times(wide(row), side.outer), times(wide(step), side.depth));
    offset = arith::SelectOp::create(builder, loc, exists, offset, number(0, i64));
    Value from = address(side.pointer, plus(offset, base), builder.getI16Type());
    Value loaded = LLVM::LoadOp::create(builder, loc, type, from, 16);
    accesses.push_back(arith::SelectOp::create(builder, loc, exists, loaded, none));
  }
  return accesses;
}

void TileEmitter::keep(const Side &side, Value buffer, ValueRange accesses) {
  for (auto [i, access] : llvm::enumerate(accesses)) {
    auto [outer, depth] = placeOf(side, static_cast<int64_t>(i));
    Value row = side.isDeepInside() ? outer : depth, inner = side.isDeepInside() ? depth : outer;
    Value place = plus(plus(times(row, side.rowLength()), inner), times(buffer, side.elements()));
    LLVM::StoreOp::create(builder, loc, access, address(side.shared, place, builder.getI16Type()),
                          16);
  }
}

/// Each lane has the address of a row of one of four matrices of 8 x 8. They are, of lhs, both
/// halves of the rows, then of k; of rhs both halves of k, then of the columns.
Values TileEmitter::matrices(const Side &side, Value buffer, Value outer, int64_t depth) {
  Value matrix = over(lane, 8), row = modulo(lane, 8);
  Value fast = times(modulo(matrix, 2), 8), slow = times(over(matrix, 2), 8);
  Value outerHalf = side.isLhs ? fast : slow, depthHalf = side.isLhs ? slow : fast;
  Value inOuter = plus(outer, outerHalf), inDepth = plus(depthHalf, depth);
  if (side.isDeepInside())
    inOuter = plus(inOuter, row);
  else
    inDepth = plus(inDepth, row);
  Value line = side.isDeepInside() ? inOuter : inDepth,
        inner = side.isDeepInside() ? inDepth : inOuter;
  Value place = plus(plus(times(line, side.rowLength()), inner), times(buffer, side.elements()));
  Value from = address(side.shared, place, builder.getI16Type());
  auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(), {i32, i32, i32, i32});
  Value loaded = NVVM::LdMatrixOp::create(
      builder, loc, type, from, 4,
      side.isDeepInside() ? NVVM::MMALayout::row : NVVM::MMALayout::col,
      NVVM::LdStMatrixShapeAttr::get(builder.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
  Values words;
  for (int64_t i = 0; i < 4; ++i) {
    Value word = LLVM::ExtractValueOp::create(builder, loc, loaded, i);
    if (element.isF16())
      word = LLVM::BitcastOp::create(builder, loc, VectorType::get({2}, element), word);
    words.push_back(word);
  }
  return words;
}

Value TileEmitter::multiply(ValueRange a, ValueRange b, ValueRange sums) {
  Type f32 = builder.getF32Type();
  auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(), {f32, f32, f32, f32});
  const NVVM::MMATypes kind = element.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  return NVVM::MmaOp::create(
      builder, loc, type, a, b, sums, ArrayRef<int64_t>{kCoreRows, kCoreColumns, kCoreDepth},
      std::nullopt, std::nullopt, std::array<NVVM::MMATypes, 2>{kind, kind},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row, NVVM::MMALayout::col});
}

Values TileEmitter::addStep(Value buffer, Values sums) {
  for (int64_t depth = 0; depth < ProductTiles::kStep; depth += kCoreDepth) {
    SmallVector<Values> lhs, rhs;
    for (int64_t row = 0; row < rowsOfWarp(); ++row)
      lhs.push_back(matrices(sides[0], buffer, plus(firstRow, row * kCoreRows), depth));
    for (int64_t column = 0; column < columnsOfWarp(); column += 2)
      rhs.push_back(matrices(sides[1], buffer, plus(firstColumn, column * kCoreColumns), depth));
    for (int64_t row = 0; row < rowsOfWarp(); ++row)
      for (int64_t column = 0; column < columnsOfWarp(); ++column) {
        const int64_t at = (row * columnsOfWarp() + column) * 4;
        Value product = multiply(lhs[row], ArrayRef(rhs[column / 2]).slice(column % 2 * 2, 2),
                                 ArrayRef(sums).slice(at, 4));
        for (int64_t i = 0; i < 4; ++i)
          sums[at + i] = LLVM::ExtractValueOp::create(builder, loc, product, i);
      }
  }
  return sums;
}

Values TileEmitter::addProduct(std::array<Value, 2> bases, Values sums) {
  auto readBoth = [&](Value depth) {
    return std::pair(read(sides[0], bases[0], tileRow, depth),
                     read(sides[1], bases[1], tileColumn, depth));
  };
  auto keepBoth = [&](Value buffer, const std::pair<Values, Values> &accesses) {
    keep(sides[0], buffer, accesses.first);
    keep(sides[1], buffer, accesses.second);
    WarpOps{builder, loc}.meetInBlock();
  };
  keepBoth(constant(0), readBoth(constant(0)));
  const int64_t steps = ceilDivide(op.getMnk()[2], ProductTiles::kStep);
  auto loop = scf::ForOp::create(builder, loc, constant(0), constant(steps), constant(1), sums);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value step = loop.getInductionVar(), next = plus(step, 1);
  auto ahead = readBoth(times(next, ProductTiles::kStep));
  Values added = addStep(modulo(step, 2), Values(loop.getRegionIterArgs()));
  keepBoth(modulo(next, 2), ahead);
  scf::YieldOp::create(builder, loc, added);
  return Values(loop.getResults());
}

//===-- groups ------------------------------------------------------------===//

Values TileEmitter::delinearize(Value number, ArrayRef<int64_t> sizes) {
  Values places(sizes.size());
  for (size_t dim = sizes.size(); dim-- > 0;) {
    places[dim] = dim == 0 ? number : modulo(number, sizes[dim]);
    number = over(number, sizes[dim]);
  }
  return places;
}

Value TileEmitter::offsetOf(ArrayRef<Value> places, ArrayRef<int64_t> strides) {
  Value sum = number(0, i64);
  for (auto [place, stride] : llvm::zip(places, strides))
    if (stride != 0)
      sum = plus(sum, times(wide(place), stride));
  return sum;
}

/// The expert of a product, as i64; any number where it chose none.
Value TileEmitter::choiceAt(Value number) {
  Type type = getElementTypeOrSelf(op.getChoices());
  Value from = address(pointers[2], wide(number), type);
  Value choice = LLVM::LoadOp::create(builder, loc, type, from, kernels::storageBytes(type));
  return type == i64 ? choice : arith::ExtSIOp::create(builder, loc, i64, choice).getResult();
}

Values TileEmitter::sumsOfProduct(Value group, Value &resultBase) {
  Values places = delinearize(group, op.getBatch());
  resultBase = offsetOf(places, op.getResultStrides());
  Value expert = choiceAt(group);
  Value exists = isBelow(expert, static_cast<int64_t>(op.getCount()));
  Values none = zeros();
  auto branch = scf::IfOp::create(builder, loc, TypeRange(ValueRange(none)), exists, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, none);
  builder.setInsertionPointToStart(branch.thenBlock());
  Values sums =
      addProduct({plus(offsetOf(places, op.getLhsStrides()), times(expert, op.getExperts()[0])),
                  plus(offsetOf(places, op.getRhsStrides()), times(expert, op.getExperts()[1]))},
                 none);
  scf::YieldOp::create(builder, loc, sums);
  return Values(branch.getResults());
}

SmallVector<int64_t> TileEmitter::sizesOf(bool ofKept) {
  SmallVector<int64_t> sizes;
  for (auto [dim, size] : llvm::enumerate(op.getBatch()))
    if (isKept(dim) == ofKept)
      sizes.push_back(size);
  return sizes;
}

Values TileEmitter::placesOf(ArrayRef<Value> kept, Value number) {
  Values summed = delinearize(number, sizesOf(false)), places;
  size_t ofKept = 0, ofSummed = 0;
  for (size_t dim = 0; dim < op.getBatch().size(); ++dim)
    places.push_back(isKept(dim) ? kept[ofKept++] : summed[ofSummed++]);
  return places;
}

/// A word for each warp says which of its 32 products chose the expert.
void TileEmitter::listMatches(Value first, Value expert, ArrayRef<Value> kept, int64_t count) {
  Value own = plus(first, thread), exists = isBelow(own, count);
  Value safe = arith::SelectOp::create(builder, loc, exists, own, constant(0));
  SmallVector<int64_t> dense(op.getBatch().size(), 1);
  for (size_t dim = dense.size(); dim-- > 1;)
    dense[dim - 1] = dense[dim] * op.getBatch()[dim];
  Value choice = choiceAt(offsetOf(placesOf(kept, safe), dense));
  Value isOwn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, choice, expert);
  Value votes = WarpOps{builder, loc}.ballot(both(isOwn, exists));
  auto isFirst = scf::IfOp::create(
      builder, loc,
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, lane, constant(0)));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(isFirst.thenBlock());
    LLVM::StoreOp::create(builder, loc, votes, address(masks, over(thread, kWarp), i32), 4);
  }
  WarpOps{builder, loc}.meetInBlock();
}

/// Goes through the listed products in their order.
Values TileEmitter::addListed(Value first, ArrayRef<Value> kept, Values sums) {
  auto warps = scf::ForOp::create(builder, loc, constant(0), constant(kWarps), constant(1), sums);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(warps.getBody());
  Value warp = warps.getInductionVar();
  Values initial(warps.getRegionIterArgs());
  initial.push_back(LLVM::LoadOp::create(builder, loc, i32, address(masks, warp, i32), 4));
  auto loop = scf::WhileOp::create(
      builder, loc, TypeRange(ValueRange(initial)), initial,
      [&](OpBuilder &, Location, ValueRange values) {
        Value isLeft = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, values.back(),
                                             constant(0));
        scf::ConditionOp::create(builder, loc, isLeft, values);
      },
      [&](OpBuilder &, Location, ValueRange values) {
        Value mask = values.back();
        Value bit = math::CountTrailingZerosOp::create(builder, loc, mask);
        Values places = placesOf(kept, plus(plus(first, times(warp, kWarp)), bit));
        Values next =
            addProduct({offsetOf(places, op.getLhsStrides()), offsetOf(places, op.getRhsStrides())},
                       Values(values.drop_back()));
        next.push_back(binary<arith::AndIOp>(mask, plus(mask, -1)));
        scf::YieldOp::create(builder, loc, next);
      });
  scf::YieldOp::create(builder, loc, ValueRange(loop.getResults()).drop_back());
  return Values(warps.getResults());
}

Values TileEmitter::sumsOfExpert(Value group, Value &resultBase) {
  const auto experts = static_cast<int64_t>(op.getCount());
  Value expert = wide(modulo(group, experts));
  Values kept = delinearize(over(group, experts), sizesOf(true));
  int64_t count = 1;
  for (int64_t size : sizesOf(false))
    count *= size;
  masks = sharedArray("_masks", i32, kWarps);
  resultBase = plus(offsetOf(placesOf(kept, constant(0)), op.getResultStrides()),
                    times(expert, op.getExperts()[2]));
  auto loop = scf::ForOp::create(builder, loc, constant(0), constant(count),
                                 constant(ProductTiles::kThreads), zeros());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  listMatches(first, expert, kept, count);
  Values sums = addListed(first, kept, Values(loop.getRegionIterArgs()));
  WarpOps{builder, loc}.meetInBlock(); // before the list is written anew
  scf::YieldOp::create(builder, loc, sums);
  return Values(loop.getResults());
}

/// A lane has two neighbouring columns of two rows of each matrix.
void TileEmitter::store(Value base, ValueRange sums) {
  const int64_t rowStride = op.getResultStrides().drop_back().back();
  Type type = getElementTypeOrSelf(op.getResult()), stored = kernels::storageType(type);
  Value row = plus(plus(tileRow, firstRow), over(lane, 4)),
        column = plus(plus(tileColumn, firstColumn), times(modulo(lane, 4), 2));
  for (int64_t i = 0; i < static_cast<int64_t>(sums.size()); ++i) {
    const int64_t matrix = i / 4, half = i % 4 / 2;
    Value at = plus(row, matrix / columnsOfWarp() * kCoreRows + half * 8);
    Value across = plus(column, matrix % columnsOfWarp() * kCoreColumns + i % 2);
    Value exists = both(isBelow(at, op.getMnk()[0]), isBelow(across, op.getMnk()[1]));
    auto branch = scf::IfOp::create(builder, loc, exists);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value offset = plus(plus(times(wide(at), rowStride), wide(across)), base);
    Value bits = kernels::toStorage(builder, loc, sums[i], type, kernels::Narrowing::Instruction);
    LLVM::StoreOp::create(builder, loc, bits, address(pointers[3], offset, stored),
                          static_cast<unsigned>(kernels::storageBytes(type)));
  }
}

void TileEmitter::emit() {
  makeSides();
  lane = modulo(thread, kWarp);
  Value warp = over(thread, kWarp);
  firstRow = times(modulo(warp, warpsAlongRows()), kWarpRows);
  firstColumn = times(over(warp, warpsAlongRows()), warpColumns());
  tileColumn = times(modulo(block, tiles.columnTiles), ProductTiles::kColumns);
  Value rest = over(block, tiles.columnTiles);
  tileRow = times(modulo(rest, tiles.rowTiles), tiles.rows);
  Value group = over(rest, tiles.rowTiles), base;
  Values sums = op.addsUp() ? sumsOfExpert(group, base) : sumsOfProduct(group, base);
  store(base, sums);
}

void emitProductTiles(exec::GroupedMatmulOp op, LLVM::LLVMFuncOp function, ValueRange pointers,
                      Value block, Value thread, OpBuilder &builder) {
  TileEmitter(op, function, pointers, block, thread, builder).emit();
}

} // namespace dtc::cuda
