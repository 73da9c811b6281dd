#include "dtc-rt/CPU/Arena.h"

#include <sys/mman.h>
#include <utility>

namespace dtc::rt {

Result<Arena> Arena::create(uint64_t bytes) {
  constexpr uint64_t kHugePage = uint64_t(1) << 21;
  Arena arena;
  arena.bytes = bytes;
  uint64_t size = bytes < 1 ? 1 : bytes;
  // Room to begin at a multiple of the large page; untouched pages cost nothing.
  uint64_t reserved = size + kHugePage;
  void *block = reserved < size ? MAP_FAILED
                                : ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    return Status(ErrorCategory::NoFit,
                  "no memory for the arena of a rank, bytes: " + std::to_string(bytes));
  uint64_t start = reinterpret_cast<uint64_t>(block);
  uint64_t aligned = (start + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > start)
    ::munmap(block, aligned - start);
  arena.base = reinterpret_cast<char *>(aligned);
  arena.mapped = reserved - (aligned - start);
  ::madvise(arena.base, arena.mapped, MADV_HUGEPAGE);
  return arena;
}

Arena::Arena(Arena &&other) noexcept
    : base(std::exchange(other.base, nullptr)), bytes(other.bytes), mapped(other.mapped) {}

Arena::~Arena() {
  if (base)
    ::munmap(base, mapped);
}

} // namespace dtc::rt
