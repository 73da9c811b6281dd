// Words of 32 bits are kept in i64, in which the product of two of them is exact.
#include "PhiloxWord.h"

#include "dtc/Dialect/Graph/RandomOps.h"

#include <array>

using namespace mlir;

namespace dtc::kernels {

namespace {
struct Words {
  OpBuilder &builder;
  Location loc;

  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  Value low(Value x) { return arith::AndIOp::create(builder, loc, x, constant(0xFFFFFFFF)); }
  Value high(Value x) { return arith::ShRUIOp::create(builder, loc, x, constant(32)); }
  Value flip(Value x, Value y) { return arith::XOrIOp::create(builder, loc, x, y); }
  Value times(Value x, int64_t y) { return arith::MulIOp::create(builder, loc, x, constant(y)); }
  Value wrapped(Value x, int64_t y) {
    return low(arith::AddIOp::create(builder, loc, x, constant(y)));
  }
};
} // namespace

Value philoxWord(OpBuilder &builder, Location loc, Value key, Value index, int64_t number) {
  constexpr int kRounds = 10;
  Words words{builder, loc};
  Value key0 = words.low(key), key1 = words.high(key);
  std::array<Value, 4> x = {words.low(index), words.high(index), words.constant(number),
                            words.constant(graph::PhiloxOp::kStream)};
  for (int round = 0; round < kRounds; ++round) {
    Value first = words.times(x[0], 0xD2511F53), second = words.times(x[2], 0xCD9E8D57);
    x = {words.flip(words.flip(words.high(second), x[1]), key0), words.low(second),
         words.flip(words.flip(words.high(first), x[3]), key1), words.low(first)};
    key0 = words.wrapped(key0, 0x9E3779B9);
    key1 = words.wrapped(key1, 0xBB67AE85);
  }
  return x[0];
}

} // namespace dtc::kernels
