#include "Tensors.h"

#include "dtc/Import/Unsupported.h"

#include "dtc-io/CheckedSize.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <filesystem>

using namespace mlir;

namespace dtc::import {

Type elementType(MLIRContext *context, int32_t dataType) {
  using T = onnx::TensorProto;
  auto integer = [&](unsigned width, IntegerType::SignednessSemantics sign) {
    return IntegerType::get(context, width, sign);
  };
  switch (dataType) {
  case T::FLOAT: return Float32Type::get(context);
  case T::DOUBLE: return Float64Type::get(context);
  case T::FLOAT16: return Float16Type::get(context);
  case T::BFLOAT16: return BFloat16Type::get(context);
  case T::BOOL: return integer(1, IntegerType::Signless);
  case T::INT8: return integer(8, IntegerType::Signless);
  case T::INT16: return integer(16, IntegerType::Signless);
  case T::INT32: return integer(32, IntegerType::Signless);
  case T::INT64: return integer(64, IntegerType::Signless);
  case T::UINT8: return integer(8, IntegerType::Unsigned);
  case T::UINT16: return integer(16, IntegerType::Unsigned);
  case T::UINT32: return integer(32, IntegerType::Unsigned);
  case T::UINT64: return integer(64, IntegerType::Unsigned);
  default: return {};
  }
}

LogicalResult checkShape(const Model &model, ArrayRef<int64_t> shape, const Twine &what) {
  const std::string wrong = describeBadShape(shape);
  return wrong.empty() ? success() : emitError(model.location) << what << " " << wrong;
}

FailureOr<Weight> TensorReader::read(const onnx::TensorProto &tensor) {
  Type type = elementType(model.location.getContext(), tensor.data_type());
  if (!type)
    return unsupported(emitError(model.location))
           << "the tensor " << tensor.name() << " has the unsupported data type "
           << tensor.data_type();
  Weight weight;
  weight.dtype = safetensorsName(type);
  weight.shape.assign(tensor.dims().begin(), tensor.dims().end());
  if (failed(checkShape(model, weight.shape, "the tensor " + tensor.name())))
    return failure();
  weight.size = *(io::CheckedSize::product(weight.shape) * elementBytes(type));
  const bool external = tensor.data_location() == onnx::TensorProto::EXTERNAL;
  if (failed(external ? readExternal(tensor, weight) : readInline(tensor, type, weight)))
    return failure();
  return weight;
}

/// Packs a typed field of the message into bytes of the element type.
template <typename Element, typename Field>
static std::string pack(const Field &field) {
  std::string bytes;
  bytes.reserve(field.size() * sizeof(Element));
  for (auto value : field) {
    const Element element = static_cast<Element>(value);
    bytes.append(reinterpret_cast<const char *>(&element), sizeof(element));
  }
  return bytes;
}

static std::string packTyped(const onnx::TensorProto &tensor, Type type) {
  if (type.isF32())
    return pack<float>(tensor.float_data());
  if (type.isF64())
    return pack<double>(tensor.double_data());
  if (type.isInteger(64))
    return type.isUnsignedInteger() ? pack<uint64_t>(tensor.uint64_data())
                                    : pack<int64_t>(tensor.int64_data());
  if (type.isUnsignedInteger(32))
    return pack<uint32_t>(tensor.uint64_data());
  switch (elementBytes(type)) { // the rest, 16-bit floats as bits, is in int32_data
  case 1: return pack<uint8_t>(tensor.int32_data());
  case 2: return pack<uint16_t>(tensor.int32_data());
  default: return pack<uint32_t>(tensor.int32_data());
  }
}

LogicalResult TensorReader::readInline(const onnx::TensorProto &tensor, Type type,
                                       Weight &weight) {
  const char *data = tensor.raw_data().data();
  uint64_t size = tensor.raw_data().size();
  weight.owner = model.arena;
  if (!tensor.has_raw_data()) {
    auto packed = std::make_shared<std::string>(packTyped(tensor, type));
    data = packed->data();
    size = packed->size();
    weight.owner = packed;
  }
  if (size != weight.size)
    return emitError(model.location) << "the tensor " << tensor.name() << " needs " << weight.size
                                     << " bytes, the file has " << size;
  weight.data = reinterpret_cast<const std::byte *>(data);
  return success();
}

/// Parses a non-negative decimal number that takes all of `text`.
static bool parseSize(const std::string &text, uint64_t &value) {
  return !llvm::StringRef(text).getAsInteger(10, value);
}

LogicalResult TensorReader::readExternal(const onnx::TensorProto &tensor, Weight &weight) {
  const std::string location = metadata(tensor.external_data(), "location");
  const std::string offset = metadata(tensor.external_data(), "offset");
  const std::string length = metadata(tensor.external_data(), "length");
  uint64_t size = weight.size;
  if ((!offset.empty() && !parseSize(offset, weight.offset)) ||
      (!length.empty() && !parseSize(length, size)) || size != weight.size)
    return emitError(model.location)
           << "external data of the tensor " << tensor.name() << " has the bad range offset '"
           << offset << "', length '" << length << "' (needs " << weight.size << " bytes)";
  auto file = map(location, tensor.name());
  if (failed(file))
    return failure();
  const uint64_t available = file->bytes().size();
  if (weight.offset > available || weight.size > available - weight.offset)
    return emitError(model.location)
           << "external data of the tensor " << tensor.name() << " ends beyond the " << available
           << " bytes of " << location;
  const std::filesystem::path normal = std::filesystem::path(location).lexically_normal();
  weight.file = (std::filesystem::path(model.path).parent_path() / normal).string();
  weight.data = reinterpret_cast<const std::byte *>(file->bytes().data()) + weight.offset;
  weight.owner = std::make_shared<io::MappedFile>(*file);
  ranges.push_back({normal.string(), tensor.name(), weight.offset, weight.offset + weight.size});
  return success();
}

FailureOr<io::MappedFile> TensorReader::map(const std::string &location,
                                            const std::string &tensor) {
  namespace fs = std::filesystem;
  auto refuse = [&](const std::string &why) {
    return emitError(model.location)
           << "external data of the tensor " << tensor << " " << why << ": " << location;
  };
  const fs::path relative(location);
  if (location.empty() || relative.is_absolute() || location.find('\0') != std::string::npos)
    return refuse("must lie below the model's folder");
  for (const fs::path &part : relative)
    if (part == "..")
      return refuse("must lie below the model's folder");
  const std::string key = relative.lexically_normal().string();
  if (auto found = files.find(key); found != files.end())
    return found->second;
  std::error_code error;
  const fs::path folder = fs::canonical(fs::absolute(model.path).parent_path(), error);
  const fs::path file = error ? fs::path() : fs::canonical(folder / relative, error);
  if (error)
    return refuse("cannot be read (" + error.message() + ")");
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (end != folder.end())
    return refuse("leaves the model's folder through a symbolic link");
  std::string why;
  std::optional<io::MappedFile> mapped = io::MappedFile::open(file.string(), why);
  if (!mapped)
    return refuse("cannot be read (" + why + ")");
  return files.emplace(key, *mapped).first->second;
}

LogicalResult TensorReader::checkOverlaps() {
  llvm::sort(ranges, [](const Range &a, const Range &b) {
    return std::tie(a.file, a.begin, a.end, a.name) < std::tie(b.file, b.begin, b.end, b.name);
  });
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].file == ranges[i - 1].file && ranges[i].begin < ranges[i - 1].end)
      return emitError(model.location)
             << "external data of the tensors " << ranges[i - 1].name << " and "
             << ranges[i].name << " overlaps in " << ranges[i].file;
  return success();
}

} // namespace dtc::import
