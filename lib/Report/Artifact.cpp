#include "dtc/Report/Artifact.h"

#include "dtc/Report/Words.h"

#include <sstream>

namespace dtc::report {

using Json = nlohmann::ordered_json;

/// "4 ranks, largest difference 3.1e-16 of its largest element: gradient of w".
static std::string largestDifference(const StepVerification &found) {
  char text[96];
  std::string ranks = found.ranks == 1 ? "1 rank" : std::to_string(found.ranks) + " ranks";
  std::snprintf(text, sizeof(text),
                "%s, largest difference %.2g of its largest element: ", ranks.c_str(), found.worst);
  return text + found.worstTensor;
}

std::string verifiedText(const StepVerification &found) {
  return "verified " + std::to_string(found.tensors) + " tensors of a step on " +
         largestDifference(found);
}

std::string differenceText(const StepVerification &found) {
  return "--verify: the partitioned program doesn't compute what one rank computes: " +
         largestDifference(found);
}

std::string artifactText(const Json &facts) {
  std::ostringstream text;
  text << "target " << facts["target"].get<std::string>() << ", world size " << facts["world_size"]
       << "\nplan";
  for (auto &[key, value] : facts["plan"].items())
    text << " " << key << "=" << (value.is_string() ? value.get<std::string>() : value.dump());
  text << "\nparameters\n";
  for (const Json &parameter : facts["parameters"])
    text << "  " << parameter["name"].get<std::string>() << "  "
         << parameter["dtype"].get<std::string>() << " " << parameter["shape"].dump() << "  "
         << parameter["sharding"].dump() << "\n";
  text << "kernels " << facts["kernels"].size() << ", library calls "
       << facts["library_calls"].dump() << "\ncollectives a step and rank "
       << facts["collectives"].dump() << "\narena a rank";
  for (const Json &bytes : facts["arena_bytes"])
    text << " " << formatBytes(bytes.get<double>());
  text << "\n";
  return text.str();
}

} // namespace dtc::report
