// Whose device hangs where devices don't end what all ranks have called.
//
// Each rank gives up what its device waits for of others. A device that only waited then ends:
//
//   of four ranks, the devices of 0, 2 and 3 have ended   -> that of rank 1 hangs
//   none has, or all have                                 -> it isn't known
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace dtc::rt {

class EndedDevices {
public:
  explicit EndedDevices(int ranks) : hasEnded(static_cast<size_t>(ranks)) {}

  void add(int rank) { hasEnded[static_cast<size_t>(rank)] = true; }
  bool areAll() const { return std::ranges::count(hasEnded, false) == 0; }

  /// What to add to the words of a rank that waits for its device.
  std::string namingOthers() const {
    std::string ranks;
    for (size_t rank = 0; rank < hasEnded.size(); ++rank)
      if (!hasEnded[rank])
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    const bool isKnown = !areAll() && std::ranges::count(hasEnded, true) > 0;
    return isKnown ? ", because of the device of rank: " + ranks : "";
  }

private:
  std::vector<bool> hasEnded; ///< by rank
};

/// Ranks notice one after another that steps take too long. Whoever knows more says it meanwhile.
inline constexpr std::chrono::milliseconds kNoticeTime(200);

/// In which devices end that only waited. Of steps that may take `limit`, a twentieth is known to
/// be enough, and two are under way.
inline std::chrono::milliseconds timeToEnd(std::chrono::milliseconds limit) {
  return kNoticeTime + std::max<std::chrono::milliseconds>(std::chrono::seconds(1), limit / 10);
}

} // namespace dtc::rt
