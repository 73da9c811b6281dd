#include "SafetensorsFile.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace dtc::test {

interpreter::Tensor tensorFromBytes(RankedTensorType type, StringRef dtype, const char *bytes) {
  interpreter::Tensor tensor(type);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double number = 0;
    int64_t integer = 0;
    if (dtype == "F32")
      number = llvm::bit_cast<float>(llvm::support::endian::read32le(bytes + 4 * i));
    else if (dtype == "I64")
      integer = static_cast<int64_t>(llvm::support::endian::read64le(bytes + 8 * i));
    else if (dtype == "BOOL")
      integer = bytes[i] != 0;
    else
      ADD_FAILURE() << "element type not handled: " << dtype.str();
    if (tensor.isFloat())
      tensor.floats[i] = number;
    else
      tensor.ints[i] = integer;
  }
  interpreter::roundToType(tensor);
  return tensor;
}

static Type elementType(MLIRContext &context, StringRef dtype) {
  Builder builder(&context);
  if (dtype == "F32")
    return builder.getF32Type();
  return dtype == "BOOL" ? builder.getI1Type() : builder.getI64Type();
}

Arrays readSafetensors(MLIRContext &context, const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    ADD_FAILURE() << "can't be read: " << path;
    return {};
  }
  StringRef bytes = (*file)->getBuffer();
  uint64_t length = llvm::support::endian::read64le(bytes.data());
  llvm::Expected<llvm::json::Value> header = llvm::json::parse(bytes.substr(8, length));
  if (!header) {
    ADD_FAILURE() << path << ": " << llvm::toString(header.takeError());
    return {};
  }
  Arrays arrays;
  for (auto &[name, value] : *header->getAsObject()) {
    if (name == "__metadata__")
      continue;
    const llvm::json::Object &entry = *value.getAsObject();
    SmallVector<int64_t> shape;
    for (const llvm::json::Value &size : *entry.getArray("shape"))
      shape.push_back(*size.getAsInteger());
    StringRef dtype = *entry.getString("dtype");
    int64_t begin = *(*entry.getArray("data_offsets"))[0].getAsInteger();
    auto type = RankedTensorType::get(shape, elementType(context, dtype));
    arrays.emplace(name.str(), tensorFromBytes(type, dtype, bytes.data() + 8 + length + begin));
  }
  return arrays;
}

} // namespace dtc::test
