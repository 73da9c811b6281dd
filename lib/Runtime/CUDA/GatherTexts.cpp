#include "GatherTexts.h"

#include <algorithm>

namespace dtc::rt::cuda {

/// All first hear how long the texts are, which are then made equally long.
Result<std::vector<std::string>> gatherTexts(Communicator &communicator,
                                             const std::vector<int> &members, std::string own) {
  RankGroup group = communicator.group(members);
  auto length = static_cast<int64_t>(own.size());
  std::vector<int64_t> lengths(members.size());
  Transfer sizes{
      reinterpret_cast<const char *>(&length), reinterpret_cast<char *>(lengths.data()), {1}};
  if (Status status = communicator.allGather(group, DType::I64, {&sizes, 1}, 0); !status.isOk())
    return status;
  int64_t most = std::ranges::max(lengths);
  own.resize(static_cast<size_t>(most), ' ');
  std::string all(own.size() * members.size(), ' ');
  Transfer texts{own.data(), all.data(), {most}};
  if (Status status = communicator.allGather(group, DType::U8, {&texts, 1}, 0); !status.isOk())
    return status;
  std::vector<std::string> result;
  for (size_t i = 0; i < members.size(); ++i)
    result.push_back(all.substr(i * own.size(), static_cast<size_t>(lengths[i])));
  return result;
}

} // namespace dtc::rt::cuda
