#include "dtc-rt/Files/DataSet.h"

#include "dtc-rt/Program/DropoutKeys.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace dtc::rt {
namespace {

/// The target of cross entropy may be one value beyond its limit: the ignored one.
std::optional<int64_t> ignoredValue(const TensorInfo &input, const Manifest &manifest) {
  if (input.name == kTarget && manifest.loss == LossKind::CrossEntropy)
    return manifest.ignoreIndex;
  return std::nullopt;
}

/// Integers must fit; floats may be of another precision than the model file's.
bool isAccepted(DType file, DType model) {
  return isFloat(model) ? isFloat(file) && (isLossless(file, model) || sizeOf(model) == 2)
                        : isLossless(file, model);
}

Status checkArray(const Array &array, const TensorInfo &input) {
  if (!isAccepted(array.dtype, input.dtype))
    return refused(std::string("has elements ") + nameOf(array.dtype) + ", the model takes " +
                   nameOf(input.dtype) + "; convert them to " + nameOf(input.dtype));
  Dims expected(input.shape.begin() + 1, input.shape.end());
  if (input.isWhole())
    return array.shape == expected
               ? Status::ok()
               : refused("has the wrong shape " + shapeText(array.shape) +
                         ", the model takes it whole as " + shapeText(expected));
  auto dim = static_cast<size_t>(*input.batchDim);
  if (array.shape.size() != input.shape.size() || input.fileShape(array.shape[dim]) != array.shape)
    return refused("has the wrong shape " + shapeText(array.shape) +
                   ", the model takes samples of " + shapeText(expected) +
                   (dim > 0 ? " along dimension " + std::to_string(dim) : ""));
  return Status::ok();
}

/// The array with its samples first.
std::shared_ptr<std::vector<char>> samplesFirst(const Array &array, int64_t dim) {
  int64_t size = sizeOf(array.dtype), outer = 1, inner = size;
  for (size_t i = 0; i < array.shape.size(); ++i)
    (static_cast<int64_t>(i) < dim ? outer : inner) *=
        static_cast<int64_t>(i) == dim ? 1 : array.shape[i];
  int64_t samples = array.shape[static_cast<size_t>(dim)];
  auto result = std::make_shared<std::vector<char>>(static_cast<size_t>(outer * samples * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t s = 0; s < samples; ++s)
      std::memcpy(result->data() + (s * outer + o) * inner, array.data + (o * samples + s) * inner,
                  static_cast<size_t>(inner));
  return result;
}

/// The manifest's, or else what the token input is below.
std::optional<int64_t> vocabularyOf(const Manifest &manifest) {
  std::optional<int64_t> vocabulary = manifest.vocabulary;
  for (const TensorInfo &input : manifest.inputs)
    if (!vocabulary && input.name != kTarget && isInteger(input.dtype))
      vocabulary = input.limit;
  return vocabulary;
}

/// True of int32 or int64 tokens that are read as integers of half the size or less. Every second
/// one is then 0, and not all are.
bool looksWider(std::span<const char> bytes, DType dtype) {
  constexpr size_t kFewest = 32, kMost = 1 << 16;
  size_t size = static_cast<size_t>(sizeOf(dtype)), count = std::min(bytes.size() / size, kMost);
  auto isZero = [&](size_t element) {
    std::span<const char> value = bytes.subspan(element * size, size);
    return std::ranges::all_of(value, [](char byte) { return byte == 0; });
  };
  bool allZero = true;
  for (size_t i = 0; i < count; ++i) {
    if (i % 2 == 1 && !isZero(i))
      return false;
    allZero = allZero && isZero(i);
  }
  return count >= kFewest && !allZero;
}

Status checkInputs(const Manifest &manifest) {
  for (const TensorInfo &input : manifest.inputs)
    if (input.shape.empty() || input.shape[0] < 1 ||
        manifest.computedSamples() % input.shape[0] != 0)
      return refused("the artifact's input has no batch dimension: " + input.name);
  return Status::ok();
}

/// "ids of 8x32 i64, target of 8x32 i64".
std::string contentsOf(const ArrayFile &file) {
  std::string text;
  for (const auto &[name, array] : file.arrays)
    text += (text.empty() ? "" : ", ") + name + " of " + shapeText(array.shape) + " " +
            nameOf(array.dtype);
  return text.empty() ? "nothing" : text;
}

std::string joinNames(const std::vector<TensorInfo> &inputs) {
  std::string text;
  for (const TensorInfo &input : inputs)
    if (input.name != kDropoutKeys)
      text += (text.empty() ? "" : ", ") + input.name;
  return text;
}

} // namespace

Result<DataSet> DataSet::open(const std::string &path, const Manifest &manifest) {
  DataSet set;
  set.path = path;
  if (Status status = checkInputs(manifest); !status.isOk())
    return status;
  Status status = Status::ok();
  if (path.ends_with(".bin")) {
    Result<MappedFile> file = MappedFile::open(path);
    status = file ? set.addTokens(*file, manifest) : file.status();
    if (!file)
      return status;
  } else {
    Result<ArrayFile> file = ArrayFile::open(path);
    if (!file)
      return file.status();
    status = set.addArrays(*file, manifest);
  }
  if (!status.isOk())
    return std::move(status).in(path);
  if (set.samples < manifest.globalBatch)
    return refused(path + ": has fewer samples than the global batch of " +
                   std::to_string(manifest.globalBatch) + ": " + std::to_string(set.samples));
  return set;
}

Result<DataSet> DataSet::ofBatch(const std::map<std::string, Array> &arrays,
                                 const Manifest &manifest) {
  DataSet set;
  set.path = "the batch";
  if (Status status = checkInputs(manifest); !status.isOk())
    return status;
  if (Status status = set.addArrays({set.path, arrays, nullptr, {}}, manifest); !status.isOk())
    return std::move(status).in(set.path);
  if (set.samples != manifest.globalBatch)
    return refused("the batch: has another number of samples than the global batch of " +
                   std::to_string(manifest.globalBatch) + ": " + std::to_string(set.samples));
  return set;
}

Status DataSet::addArrays(const ArrayFile &file, const Manifest &manifest) {
  owner = file.owner;
  const std::string *first = nullptr; // of the inputs with samples
  samples = manifest.globalBatch;     // where no input has any
  for (const TensorInfo &input : manifest.inputs) {
    if (input.name == kDropoutKeys) {
      columns.emplace_back(); // made by who asks
      continue;
    }
    auto found = file.arrays.find(input.name);
    if (found == file.arrays.end())
      return refused("has no array for the model's input " + input.name + ", a sample of " +
                     shapeText(Dims(input.shape.begin() + 1, input.shape.end())) + " " +
                     nameOf(input.dtype) + "; it holds " + contentsOf(file));
    const Array &array = found->second;
    if (Status status = checkArray(array, input); !status.isOk())
      return std::move(status).in(input.name);
    Column column{
        input.name, array.dtype, array.data, 0, {}, input.limit, ignoredValue(input, manifest),
        nullptr};
    column.sampleShape = Dims(input.shape.begin() + 1, input.shape.end());
    if (!input.isWhole()) {
      column.sampleBytes = product(column.sampleShape) * sizeOf(array.dtype);
      int64_t count = array.shape[static_cast<size_t>(*input.batchDim)];
      if (first && count != samples)
        return refused(input.name + ": has another number of samples than " + *first + ": " +
                       std::to_string(count));
      first = first ? first : &input.name;
      samples = count;
      if (*input.batchDim > 0) {
        column.owner = samplesFirst(array, *input.batchDim);
        column.data = column.owner->data();
      }
    }
    columns.push_back(std::move(column));
  }
  for (const auto &[name, array] : file.arrays) {
    // Without a loss the targets of a data set have no use, and do no harm.
    bool known = manifest.loss == LossKind::None && name == kTarget;
    for (const TensorInfo &input : manifest.inputs)
      known = known || (input.name == name && name != kDropoutKeys);
    if (!known)
      return refused("has an array that is not an input of the model (" +
                     joinNames(manifest.inputs) + "): " + name);
  }
  return Status::ok();
}

Status DataSet::addTokens(const MappedFile &file, const Manifest &manifest) {
  owner = std::make_shared<MappedFile>(file);
  std::optional<int64_t> vocabulary = vocabularyOf(manifest);
  if (!manifest.sequence || !vocabulary || *manifest.sequence < 1)
    return refused("is a file of tokens, but the model does not take tokens");
  DType dtype = *vocabulary < 65536 ? DType::U16 : DType::U32;
  std::span<const char> bytes = file.bytes();
  if (bytes.size() % static_cast<size_t>(sizeOf(dtype)) != 0)
    return refused(std::string("is not a whole number of elements ") + nameOf(dtype));
  if (looksWider(bytes, dtype))
    return refused(std::string("looks like tokens of more bytes, as every second element is 0; a "
                               "vocabulary of ") +
                   std::to_string(*vocabulary) + " takes elements " + nameOf(dtype) +
                   " (numpy: tokens.astype(\"" + (dtype == DType::U16 ? "uint16" : "uint32") +
                   "\").tofile(FILE))");
  int64_t tokens = static_cast<int64_t>(bytes.size()) / sizeOf(dtype), length = *manifest.sequence;
  samples = tokens > 0 ? (tokens - 1) / length : 0;
  int numInputs = 0;
  for (const TensorInfo &input : manifest.inputs) {
    if (input.name == kDropoutKeys) {
      columns.emplace_back();
      continue;
    }
    bool target = input.name == kTarget;
    numInputs += !target;
    if (!isInteger(input.dtype) || input.shape.size() != 2 || input.batchDim != 0 ||
        input.shape[1] != length || numInputs > 1)
      return refused("holds tokens and nothing else; the model also takes: " + input.name);
    Column column{input.name,
                  dtype,
                  bytes.data() + (target && samples > 0 ? sizeOf(dtype) : 0),
                  length * sizeOf(dtype),
                  {length},
                  input.limit ? input.limit : vocabulary,
                  std::nullopt,
                  {}};
    columns.push_back(std::move(column));
  }
  return Status::ok();
}

Status DataSet::checkLimit(const Column &column, int64_t sample, const char *values,
                           int64_t count) const {
  constexpr int64_t kAtOnce = 512; // a call for each value would take longer than the rest
  const int64_t most = *column.limit;
  std::array<int64_t, kAtOnce> wide;
  for (int64_t from = 0; from < count; from += kAtOnce) {
    const auto size = static_cast<size_t>(std::min(kAtOnce, count - from));
    convert(DType::I64, reinterpret_cast<char *>(wide.data()), column.dtype,
            values + from * sizeOf(column.dtype), static_cast<int64_t>(size));
    for (int64_t value : std::span(wide).first(size))
      if ((value < 0 || value >= most) && !(column.ignored && value == *column.ignored))
        return refused(path + ": " + column.name + ": sample " + std::to_string(sample) +
                       ": is not in [0, " + std::to_string(most) + "): " + std::to_string(value));
  }
  return Status::ok();
}

Status DataSet::check(std::span<const int64_t> wanted) const {
  for (const Column &column : columns)
    for (int64_t sample : column.limit ? wanted : std::span<const int64_t>())
      if (Status status = checkLimit(column, sample, column.data + sample * column.sampleBytes,
                                     product(column.sampleShape));
          !status.isOk())
        return status;
  return Status::ok();
}

Status DataSet::read(size_t input, std::span<const int64_t> wanted, const Shard &shard, DType dtype,
                     char *target) const {
  const Column &column = columns[input];
  Dims part(shard.shape.begin() + 1, shard.shape.end());
  Box packed{part, Dims(part.size(), 0)};
  Box box{column.sampleShape, Dims(shard.offset.begin() + 1, shard.offset.end())};
  int64_t partBytes = product(part) * sizeOf(dtype), from = sizeOf(column.dtype);
  Status status = Status::ok();
  for (int64_t i = 0; i < shard.shape[0] && status.isOk(); ++i) {
    int64_t sample = wanted[shard.offset[0] + i];
    const char *data = column.data + sample * column.sampleBytes;
    char *place = target + i * partBytes;
    forEachRun(part, packed, box, [&](int64_t to, int64_t at, int64_t count) {
      if (column.limit && status.isOk())
        status = checkLimit(column, sample, data + at * from, count);
      convert(dtype, place + to * sizeOf(dtype), column.dtype, data + at * from, count);
    });
  }
  return status;
}

} // namespace dtc::rt
