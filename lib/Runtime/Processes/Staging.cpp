#include "Staging.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt {
namespace {

/// Whether a part along `dim` is one run of the whole.
bool isOneRun(const Dims &shape, int dim) {
  return std::all_of(shape.begin(), shape.begin() + dim, [](int64_t size) { return size == 1; });
}

Box boxAt(const Dims &whole, int dim, int64_t offset) {
  Box box{whole, Dims(whole.size(), 0)};
  box.offset[dim] = offset;
  return box;
}

} // namespace

int64_t totalBytes(std::span<const Run> runs) {
  int64_t bytes = 0;
  for (const Run &run : runs)
    bytes += run.bytes;
  return bytes;
}

std::vector<Run> slice(std::span<const Run> runs, int64_t begin, int64_t end) {
  std::vector<Run> result;
  int64_t base = 0;
  for (const Run &run : runs) {
    int64_t first = std::max(begin, base), last = std::min(end, base + run.bytes);
    if (first < last)
      result.push_back({run.data + (first - base), last - first});
    base += run.bytes;
  }
  return result;
}

std::vector<SendBlock> asSent(std::span<const Run> runs) {
  std::vector<SendBlock> blocks;
  for (const Run &run : runs)
    blocks.push_back({run.data, static_cast<uint64_t>(run.bytes)});
  return blocks;
}

/// The own part goes first to where it belongs: the others may arrive where it lies.
GatheredBuffer::GatheredBuffer(const Transfer &buffer, int64_t elementBytes, int dim,
                               const RankGroup &group)
    : buffer(buffer), elementBytes(elementBytes), dim(dim), size(group.size()),
      position(group.position),
      partBytes(static_cast<uint64_t>(product(buffer.shape) * elementBytes)),
      isContiguous(isOneRun(buffer.shape, dim)) {
  char *place = buffer.target + static_cast<uint64_t>(position) * partBytes;
  if (!isContiguous) {
    packed.resize(partBytes * static_cast<uint64_t>(size));
    place = packed.data() + static_cast<uint64_t>(position) * partBytes;
  }
  if (partBytes > 0)
    std::memmove(place, buffer.source, partBytes);
}

SendBlock GatheredBuffer::own() const {
  const char *base = isContiguous ? buffer.target : packed.data();
  return {base + static_cast<uint64_t>(position) * partBytes, partBytes};
}

ReceiveBlock GatheredBuffer::placeOf(int peer) {
  char *base = isContiguous ? buffer.target : packed.data();
  return {base + static_cast<uint64_t>(peer) * partBytes, partBytes};
}

void GatheredBuffer::finish() {
  if (isContiguous)
    return;
  Dims whole = buffer.shape;
  whole[dim] *= size;
  for (int peer = 0; peer < size; ++peer)
    copyBox(buffer.shape, buffer.target, boxAt(whole, dim, peer * buffer.shape[dim]),
            packed.data() + static_cast<uint64_t>(peer) * partBytes, boxAt(buffer.shape, dim, 0),
            elementBytes);
}

ScatteredBuffer::ScatteredBuffer(const Transfer &buffer, int64_t elementBytes, int dim,
                                 const RankGroup &group)
    : buffer(buffer), position(group.position),
      partBytes(product(buffer.shape) * elementBytes / group.size()),
      isContiguous(isOneRun(buffer.shape, dim)) {
  if (isContiguous)
    return;
  packed.resize(static_cast<size_t>(partBytes * group.size()));
  Dims shape = buffer.shape;
  shape[dim] /= group.size();
  for (int peer = 0; peer < group.size(); ++peer)
    copyBox(shape, packed.data() + peer * partBytes, boxAt(shape, dim, 0), buffer.source,
            boxAt(buffer.shape, dim, peer * shape[dim]), elementBytes);
}

Run ScatteredBuffer::part(int peer) {
  char *base = isContiguous ? const_cast<char *>(buffer.source) : packed.data();
  return {base + peer * partBytes, partBytes};
}

/// In place, the own part of the source is no longer needed once it is reduced.
Run ScatteredBuffer::result() {
  if (isContiguous && buffer.source == buffer.target)
    return part(position);
  return {buffer.target, partBytes};
}

void ScatteredBuffer::finish() {
  Run made = result();
  if (made.data != buffer.target)
    std::memmove(buffer.target, made.data, static_cast<size_t>(partBytes));
}

} // namespace dtc::rt
