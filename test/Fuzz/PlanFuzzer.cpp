// What the planner reads, in process: clusters, SPECs, plans, problems and other programs'
// settings.
#include "FuzzInput.h"

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Plan/Plan/TextFile.h"
#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Tools/ToolSettings.h"

#include <optional>

using namespace dtc;

namespace {

std::string kind;
std::optional<plan::Cluster> cluster; ///< that plans are checked for
std::optional<plan::Problem> problem; ///< of the model that plans are read for

} // namespace

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  kind = fuzz::flag(*argc, *argv, "kind");
  const std::string path = fuzz::flag(*argc, *argv, "problem");
  auto text = plan::readText(path, "problem");
  auto read = text ? plan::problemFromJson(*text, path) : text.error();
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().message.c_str());
    std::exit(2);
  }
  problem.emplace(std::move(*read));
  cluster = *plan::loadCluster("dgx-h100");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  if (kind == "cluster") {
    (void)plan::clusterFromYaml(text, "input");
  } else if (kind == "problem") {
    (void)plan::problemFromJson(text, "input");
  } else if (kind == "settings") {
    const plan::RunFacts run{.devices = 16, .devicesPerNode = 8, .layers = 4};
    for (const plan::Preset &preset : plan::presets())
      (void)plan::readToolSettings(preset, text, "input", run);
  } else {
    (void)plan::degreesFromYaml(text, "input");
    if (auto read = plan::planFromYaml(text, "input", *problem))
      (void)plan::verify(*problem, *read, *cluster);
  }
  return 0;
}
