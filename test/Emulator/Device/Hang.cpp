#include "Emulator/Device/Hang.h"

#include "Emulator/Device/Settings.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace dtc::emulator {

void hangIfAsked(const char *name) {
  static std::atomic<uint64_t> begun{0};
  const Hang &hang = settings().hang;
  if (hang.name != name || ++begun != hang.number)
    return;
  for (;;)
    std::this_thread::sleep_for(std::chrono::hours(1));
}

} // namespace dtc::emulator
