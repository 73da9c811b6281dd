// The one block of memory that a rank computes in.
#pragma once

#include "dtc-rt/Status.h"

#include <cstdint>

namespace dtc::rt {

/// Page-aligned zeros; large pages where the system has them.
class Arena {
public:
  static Result<Arena> create(uint64_t bytes);
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&) = delete;
  ~Arena();

  char *data() const { return base; }
  uint64_t size() const { return bytes; }

private:
  Arena() = default;
  char *base = nullptr;
  uint64_t bytes = 0, mapped = 0;
};

} // namespace dtc::rt
