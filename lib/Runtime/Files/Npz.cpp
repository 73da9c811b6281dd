#include "dtc-io/ZipFile.h"
#include "dtc-rt/Files/ArrayFile.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace dtc::rt {
namespace {

/// NumPy's description of an element, as in an .npy header.
std::optional<DType> parseDescr(std::string_view descr) {
  static constexpr std::pair<std::string_view, DType> kKnown[] = {
      {"<f4", DType::F32},  {"<f8", DType::F64}, {"<f2", DType::F16}, {"<i8", DType::I64},
      {"<i4", DType::I32},  {"<i2", DType::I16}, {"|i1", DType::I8},  {"|u1", DType::U8},
      {"|b1", DType::Bool}, {"<u2", DType::U16}, {"<u4", DType::U32}, {"<u8", DType::U64}};
  for (auto [text, dtype] : kKnown)
    if (descr == text)
      return dtype;
  return std::nullopt;
}

/// What follows "'key':" in the header's dictionary; empty when it is missing.
std::string_view valueOf(std::string_view header, std::string_view key) {
  std::string quoted = "'" + std::string(key) + "':";
  size_t at = header.find(quoted);
  if (at == std::string_view::npos)
    return {};
  header.remove_prefix(at + quoted.size());
  while (!header.empty() && header.front() == ' ')
    header.remove_prefix(1);
  return header;
}

/// "(3, 4)", "(3,)" or "()".
std::optional<Dims> parseShape(std::string_view text) {
  if (text.empty() || text.front() != '(')
    return std::nullopt;
  Dims shape;
  bool inNumber = false;
  for (char c : text.substr(1)) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      if (!inNumber)
        shape.push_back(0);
      inNumber = true;
      if (shape.back() > int64_t(1) << 56)
        return std::nullopt;
      shape.back() = shape.back() * 10 + (c - '0');
    } else if (c == ')') {
      return shape;
    } else if (c == ' ' || c == ',') {
      inNumber = false;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

Result<Array> parseNpy(std::span<const char> bytes) {
  constexpr size_t kPreamble = 10;
  if (bytes.size() < kPreamble + 2 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0)
    return refused("not an .npy array");
  auto byteAt = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  size_t length = byteAt(8) | byteAt(9) << 8, start = kPreamble;
  if (bytes[6] >= 2) {
    length |= byteAt(10) << 16 | byteAt(11) << 24;
    start = kPreamble + 2;
  }
  if (length > bytes.size() - start)
    return refused("truncated .npy header");
  std::string_view header(bytes.data() + start, length);
  std::string_view descr = valueOf(header, "descr");
  Array array;
  std::optional<DType> dtype =
      descr.size() > 4 && descr.front() == '\'' ? parseDescr(descr.substr(1, 3)) : std::nullopt;
  if (!dtype || descr[4] != '\'')
    return refused("unsupported element type: " +
                   std::string(descr.substr(0, std::min(descr.find(','), size_t(12)))));
  array.dtype = *dtype;
  std::optional<Dims> shape = parseShape(valueOf(header, "shape"));
  if (!shape || !(CheckedSize::product(*shape) * sizeOf(array.dtype)))
    return refused("malformed .npy header");
  array.shape = *shape;
  CheckedSize size = CheckedSize::product(*shape) * sizeOf(array.dtype);
  if (!valueOf(header, "fortran_order").starts_with("False") && array.shape.size() > 1)
    return refused("is in Fortran order; save it in C order");
  if (bytes.size() - start - length < static_cast<size_t>(*size))
    return refused("truncated, its shape is: " + shapeText(array.shape));
  array.data = bytes.data() + start + length;
  return array;
}

/// Of memory for members that are compressed; others are read where they lie.
constexpr int64_t kMostExtracted = int64_t(1) << 30;

/// The open zip and the members that had to be decompressed.
struct NpzBytes {
  io::ZipFile zip;
  std::vector<std::vector<char>> extracted;
};

} // namespace

Result<ArrayFile> openNpz(MappedFile file) {
  const std::string path = file.path();
  std::string why;
  std::optional<io::ZipFile> zip = io::ZipFile::open(std::move(file), why);
  if (!zip)
    return refused(why);
  CheckedSize extracted = 0;
  for (const auto &[member, info] : zip->members())
    if (!info.stored)
      extracted = extracted + static_cast<int64_t>(info.size);
  if (!extracted.isAtMost(kMostExtracted))
    return refused(path + ": its arrays take more than 1 GiB when they are decompressed; save them "
                          "uncompressed (numpy.savez)");
  auto bytes = std::make_shared<NpzBytes>(NpzBytes{std::move(*zip), {}});
  ArrayFile result;
  result.path = path;
  for (const auto &[member, info] : bytes->zip.members()) {
    std::span<const char> content;
    if (info.stored) {
      content = bytes->zip.bytes(info);
    } else {
      std::optional<std::vector<char>> extracted = bytes->zip.extract(member, why);
      if (!extracted)
        return refused(why);
      bytes->extracted.push_back(std::move(*extracted));
      content = bytes->extracted.back();
    }
    std::string name = member.ends_with(".npy") ? member.substr(0, member.size() - 4) : member;
    Result<Array> array = parseNpy(content);
    if (!array)
      return std::move(array.status()).in(path + ": " + name);
    result.arrays[name] = *array;
  }
  result.owner = bytes;
  return result;
}

Result<ArrayFile> ArrayFile::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.status();
  std::span<const char> bytes = file->bytes();
  if (bytes.size() >= 4 && std::memcmp(bytes.data(), "PK", 2) == 0 && bytes[2] < 8 && bytes[3] < 9)
    return openNpz(std::move(*file));
  return openSafetensors(std::move(*file));
}

} // namespace dtc::rt
