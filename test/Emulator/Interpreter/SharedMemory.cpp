#include "Emulator/Interpreter/SharedMemory.h"

#include "Emulator/Device/Fault.h"

#include <algorithm>

namespace dtc::emulator {

namespace {

std::string race(const char *does, const char *did, uint32_t other, uint32_t offset) {
  return concat("shared-memory race: it ", does, " shared byte ", offset, " that thread ", other,
                " ", did, " since the last barrier");
}

} // namespace

SharedMemory::SharedMemory(uint32_t size, uint32_t granule)
    : bytes(size), granules((size + granule - 1) / granule), granule(granule) {}

void SharedMemory::reset() {
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
  firstEpoch = ++epoch;
}

void SharedMemory::noteReader(Granule &place, uint32_t thread, uint32_t warpEpoch) {
  Touch &reader = place.reader;
  bool isSameWarp = reader.thread / 32 == thread / 32;
  if (reader.epoch != epoch) {
    reader = {epoch, warpEpoch, static_cast<uint16_t>(thread)};
    place.hasManyReaders = place.hasReadersInOtherWarps = false;
  } else if (isSameWarp && reader.warpEpoch != warpEpoch) {
    reader = {epoch, warpEpoch, static_cast<uint16_t>(thread)};
    place.hasManyReaders = false;
  } else {
    place.hasManyReaders |= reader.thread != thread;
    place.hasReadersInOtherWarps |= !isSameWarp;
  }
}

std::string SharedMemory::read(uint32_t offset, uint32_t count, uint32_t thread,
                               uint32_t warpEpoch) {
  for (uint32_t i = offset / granule; i <= (offset + count - 1) / granule; ++i) {
    Granule &place = granules[i];
    if (place.writer.epoch < firstEpoch)
      return "uninitialized read of shared byte " + std::to_string(i * granule);
    if (isConcurrent(place.writer, thread, warpEpoch))
      return race("reads", "wrote", place.writer.thread, i * granule);
    noteReader(place, thread, warpEpoch);
  }
  return "";
}

std::string SharedMemory::write(uint32_t offset, uint32_t count, uint32_t thread,
                                uint32_t warpEpoch) {
  for (uint32_t i = offset / granule; i <= (offset + count - 1) / granule; ++i) {
    Granule &place = granules[i];
    if (isConcurrent(place.writer, thread, warpEpoch))
      return race("writes", "wrote", place.writer.thread, i * granule);
    const Touch &reader = place.reader;
    bool othersRead = place.hasReadersInOtherWarps ||
                      (place.hasManyReaders && reader.warpEpoch == warpEpoch) ||
                      isConcurrent(reader, thread, warpEpoch);
    if (reader.epoch == epoch && othersRead)
      return race("writes", "read", reader.thread, i * granule);
    place.writer = {epoch, warpEpoch, static_cast<uint16_t>(thread)};
  }
  return "";
}

} // namespace dtc::emulator
