#include "dtc/Report/Artifact.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace dtc::report {

using Json = nlohmann::ordered_json;

/// "4 ranks, largest difference 3.1e-16 of its largest element: gradient of w".
static std::string largestDifference(const StepVerification &found) {
  char text[96];
  std::string ranks = found.ranks == 1 ? "1 rank" : std::to_string(found.ranks) + " ranks";
  std::snprintf(text, sizeof(text),
                "%s, largest difference %.2g of its largest element: ", ranks.c_str(), found.worst);
  std::string twin = found.mesh.empty() ? "" : ", on a twin of small dimensions with " + found.mesh;
  return text + found.worstTensor + twin;
}

std::string verifiedText(const StepVerification &found) {
  return "verified " + std::to_string(found.tensors) + " tensors of a step on " +
         largestDifference(found);
}

std::string differenceText(const StepVerification &found) {
  return std::string("--verify: the ") +
         (found.isOfKernels ? "program of kernels" : "partitioned program") +
         " doesn't compute what one rank computes, first in " + found.firstWrong + "; " +
         largestDifference(found);
}

/// "adamw (beta1=0.9, ...)", without what is off.
static std::string settingsText(const Json &settings, const char *name) {
  if (!settings.is_object())
    return "";
  std::string text = settings.value(name, ""), more;
  for (auto &[key, value] : settings.items())
    if (key != name && !value.is_null() && value != 0 && value != false)
      more += (more.empty() ? "" : ", ") + key + "=" + value.dump();
  return text + (more.empty() ? "" : " (" + more + ")");
}

/// How it trains, and the arrays that it reads.
static void writeTraining(std::ostringstream &text, const Json &facts) {
  auto add = [&](const char *title, const char *key, const std::string &value) {
    if (!facts[key].is_null())
      text << title << " " << value << "\n";
  };
  add("loss", "loss", facts["loss"].is_string() ? facts["loss"].get<std::string>() : "");
  if (facts["loss"] != "none") {
    add("optimizer", "optimizer", settingsText(facts["optimizer"], "kind"));
    add("learning rate", "learning_rate", settingsText(facts["learning_rate"], "schedule"));
  }
  const int64_t padded = facts.value("padded_samples", int64_t{0});
  add("global batch", "global_batch", facts["global_batch"].dump() + paddedSamplesText(padded));
  add("sequence", "sequence", facts["sequence"].dump());
  add("data", "data", facts["data"].is_string() ? facts["data"].get<std::string>() : "");
  text << "inputs\n";
  for (const Json &input : facts["inputs"])
    text << "  " << input["name"].get<std::string>() << "  " << input["dtype"].get<std::string>()
         << " " << input["shape"].dump() << "\n";
}

/// As `dtc plan` lists collectives, of the role that exchanges the most bytes.
static void writeExchanges(std::ostringstream &text, const Json &exchanges) {
  std::map<int64_t, double> bytes; // by role
  for (const Json &row : exchanges)
    bytes[row["role"].get<int64_t>()] += row["calls"].get<double>() * row["bytes"].get<double>();
  if (bytes.empty())
    return;
  const int64_t busiest =
      std::max_element(bytes.begin(), bytes.end(), [](const auto &a, const auto &b) {
        return a.second < b.second;
      })->first;
  text << "collectives and messages (a step and rank";
  if (bytes.size() > 1)
    text << ", of pipeline rank " << busiest;
  text << ")\n";
  for (const Json &row : exchanges) {
    if (row["role"] != busiest)
      continue;
    const auto calls = row["calls"].get<int64_t>(),
               beside = row["beside_computation"].get<int64_t>();
    text << "  " << row["kind"].get<std::string>() << " over " << row["axis"].get<std::string>()
         << "  " << calls << " x " << formatBytes(row["bytes"].get<double>());
    if (beside > 0)
      text << ", " << (beside == calls ? "" : std::to_string(beside) + " ") << "beside computation";
    text << "\n";
  }
}

std::string artifactText(const Json &facts) {
  std::ostringstream text;
  text << "target " << facts["target"].get<std::string>() << ", world size " << facts["world_size"]
       << "\nplan";
  for (auto &[key, value] : facts["plan"].items())
    text << " " << key << "=" << (value.is_string() ? value.get<std::string>() : value.dump());
  text << "\n";
  writeTraining(text, facts);
  text << "parameters\n";
  for (const Json &parameter : facts["parameters"])
    text << "  " << parameter["name"].get<std::string>() << "  "
         << parameter["dtype"].get<std::string>() << " " << parameter["shape"].dump() << "  "
         << parameter["sharding"].dump() << "\n";
  text << "kernels " << facts["kernels"].size() << ", library calls "
       << facts["library_calls"].dump();
  if (!facts["epilogues"].empty())
    text << ", of the products with " << facts["epilogues"].dump();
  if (facts["tf32"] == true)
    text << ", which may round fp32 to TF32";
  text << "\n";
  writeExchanges(text, facts["exchanges"]);
  text << "beside computation " << facts["in_flight"].dump() << "\narena a rank";
  for (const Json &bytes : facts["arena_bytes"])
    text << " " << formatBytes(bytes.get<double>());
  text << "\n";
  const Json &host = facts["host_bytes"];
  if (std::any_of(host.begin(), host.end(), [](const Json &bytes) { return bytes > 0; })) {
    text << "on the host, a rank";
    for (const Json &bytes : host)
      text << " " << formatBytes(bytes.get<double>());
    text << "\n";
  }
  return text.str();
}

} // namespace dtc::report
