#include "RankMeeting.h"

#include "GatherTexts.h"

#include <nlohmann/json.hpp>
#include <numeric>

namespace dtc::rt::cuda {
namespace {

using nlohmann::json;

/// The groups that a rank needs, and the places that it knows.
std::string newsOf(const RankProgress &progress, const ProductTuner *tuner) {
  json groups = json::array();
  for (const GroupKey &key : progress.groupKeys())
    groups.push_back({key.name, key.ranks});
  return json{{"groups", groups}, {"places", tuner ? tuner->known() : AlgorithmCache::Places()}}
      .dump();
}

} // namespace

Status meetRanks(Communicator &communicator, RankProgress &progress, ProductTuner *tuner) {
  if (communicator.worldSize() == 1 && !tuner)
    return progress.beginGroups({progress.groupKeys()});
  std::vector<int> everyone(static_cast<size_t>(communicator.worldSize()));
  std::iota(everyone.begin(), everyone.end(), 0);
  auto texts = gatherTexts(communicator, everyone, newsOf(progress, tuner));
  if (!texts)
    return texts.status();
  std::vector<std::vector<GroupKey>> groups;
  std::vector<AlgorithmCache::Places> places;
  try {
    for (const std::string &text : *texts) {
      const json news = json::parse(text);
      for (groups.emplace_back(); const json &group : news.at("groups"))
        groups.back().push_back({group.at(0), group.at(1)});
      places.push_back(news.at("places"));
    }
  } catch (const json::exception &error) {
    return failed(std::string("what another rank needs can't be read: ") + error.what());
  }
  DTC_CUDA_TRY(progress.beginGroups(groups));
  return tuner ? tuner->choose(communicator, places) : Status::ok();
}

} // namespace dtc::rt::cuda
