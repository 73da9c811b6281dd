// The cluster, who holds what, and which links carry which communication.
#include "Cluster.h"
#include "Figures.h"
#include "Sections.h"

#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Report/Words.h"

#include <algorithm>
#include <cstdio>

namespace dtc::report {

static constexpr size_t kMostGroups = 64;
static constexpr int64_t kMostCells = 72, kHues = 16, kShades = 8;

/// A class of the style sheet for one of `count`, spread over those there are.
static std::string spread(const char *prefix, int64_t index, int64_t count, int64_t classes) {
  int64_t slot = count <= classes
                     ? index * std::max<int64_t>(1, classes / std::max<int64_t>(count, 1))
                     : index * classes / count;
  return prefix + std::to_string(std::min(slot, classes - 1));
}

namespace {

class ClusterWriter {
public:
  ClusterWriter(Html &html, const Page &page)
      : html(html), page(page), roles(rolesOf(page.plan(), page.facts.devices)) {}
  void groups();
  void links();

private:
  void group(const AlikeNodes &nodes);
  void cell(int64_t device, bool folded);
  /// Its part of every layer, as a number and of how many.
  std::pair<int64_t, int64_t> shareOf(const DeviceRole &role) const;
  std::string copiesText(const AlikeNodes &nodes) const;

  Html &html;
  const Page &page;
  std::vector<DeviceRole> roles;
};

} // namespace

std::pair<int64_t, int64_t> ClusterWriter::shareOf(const DeviceRole &role) const {
  const sharding::Mesh &mesh = meshOf(page.plan(), role);
  sharding::AxisList axes = mesh.ofDegree("tp");
  for (int axis : mesh.ofDegree("ep"))
    axes.push_back(axis);
  return {mesh.position(role.meshRank, axes), mesh.size(axes)};
}

void ClusterWriter::cell(int64_t device, bool folded) {
  const DeviceRole &role = roles[device];
  if (role.pipelineRank < 0) {
    html.element("li", {{"class", "device idle"}}, "idle");
    return;
  }
  const sharding::Mesh &mesh = meshOf(page.plan(), role);
  auto [share, shares] = shareOf(role);
  std::string text, full = folded ? "device" : "device " + std::to_string(device);
  if (page.degrees().pp > 1)
    full += ", pipeline rank " + std::to_string(role.pipelineRank);
  for (const char *degree : {"dp", "cp", "ep", "tp"}) {
    sharding::AxisList axes = mesh.ofDegree(degree);
    if (mesh.size(axes) < 2 || (folded && degree == std::string("dp")))
      continue;
    std::string position = std::to_string(mesh.position(role.meshRank, axes));
    text += (text.empty() ? "" : " ") + std::string(degree) + "\u00A0" + position;
    full += std::string(", ") + degree + " " + position + " of " + std::to_string(mesh.size(axes));
  }
  html.element("li",
               {{"class", "device " + spread("h", role.pipelineRank, page.degrees().pp, kHues) +
                              " " + spread("s", share, shares, kShades)},
                {"title", full}},
               text.empty() ? (page.facts.devices > 1 ? "copy" : "all") : text);
}

/// Which data-parallel copies the devices of alike nodes belong to.
std::string ClusterWriter::copiesText(const AlikeNodes &nodes) const {
  const sharding::Mesh &mesh = meshOf(page.plan(), roles[nodes.firstDevices.front()]);
  sharding::AxisList axes = mesh.ofDegree("dp");
  int64_t copies = mesh.size(axes);
  if (copies < 2 || roles[nodes.firstDevices.front()].pipelineRank < 0)
    return "";
  std::vector<int64_t> seen;
  for (int64_t first : nodes.firstDevices)
    for (int64_t device = first; device < first + nodes.devices; ++device)
      if (roles[device].meshRank >= 0)
        seen.push_back(mesh.position(roles[device].meshRank, axes));
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  return (seen.size() == 1 ? "data-parallel copy " : "data-parallel copies ") + numbersText(seen);
}

void ClusterWriter::group(const AlikeNodes &nodes) {
  bool folded = nodes.nodes.size() > 1;
  html.open("li", {{"class", "node"}});
  html.open("p");
  if (page.facts.cluster.devicesPerNode > 0 || folded)
    html.element("b", (folded ? "nodes " : "node ") + numbersText(nodes.nodes));
  else
    html.element("b", "one machine");
  if (folded)
    html.text(" (" + std::to_string(nodes.nodes.size()) + " alike)");
  int64_t first = nodes.firstDevices.front();
  if (!page.facts.cluster.others.empty())
    html.text(" of ").name(page.facts.cluster.deviceAt(first).name);
  html.close().open("p", {{"class", "note"}});
  int64_t rank = roles[first].pipelineRank;
  std::string what;
  auto add = [&](const std::string &text) {
    what += (what.empty() || text.empty() ? "" : "; ") + text;
  };
  bool isOneRank = true;
  for (int64_t i = 0; i < nodes.devices; ++i)
    isOneRank &= roles[first + i].pipelineRank == rank;
  if (page.degrees().pp > 1 && rank >= 0)
    add(isOneRank ? "pipeline rank " + std::to_string(rank) + ": " +
                        (layersOfRank(page, rank).empty() ? stagesOfRank(page, rank)
                                                          : layersOfRank(page, rank))
                  : "several pipeline ranks");
  add(copiesText(nodes));
  html.text(what.empty() ? std::to_string(nodes.devices) + " devices" : what).close();
  html.open("ul", {{"class", "devices"}});
  int64_t shown = std::min(nodes.devices, kMostCells);
  for (int64_t i = 0; i < shown; ++i)
    cell(first + i, folded);
  if (shown < nodes.devices)
    html.element("li", {{"class", "more"}},
                 "and " + std::to_string(nodes.devices - shown) + " more");
  html.close().close();
}

void ClusterWriter::groups() {
  std::vector<AlikeNodes> found = foldNodes(page.facts.cluster, page.plan(), page.facts.devices);
  html.open("ul", {{"class", "nodes"}});
  for (size_t i = 0; i < std::min(found.size(), kMostGroups); ++i)
    group(found[i]);
  html.close();
  if (found.size() > kMostGroups)
    html.element("p", {{"class", "note"}},
                 std::to_string(found.size() - kMostGroups) + " more kinds of nodes aren't drawn.");
}

static std::string bandwidthText(double bytesPerSecond) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4g GB/s", bytesPerSecond / 1e9);
  return text;
}

static const char *purpose(const std::string &degree) {
  if (degree == "tp")
    return "partial results inside every layer";
  if (degree == "dp")
    return "sums of gradients, parts of stored parameters";
  if (degree == "pp")
    return "activations and their gradients, to the next stage and back";
  if (degree == "cp")
    return "keys and values of attention";
  return "tokens to their experts and back";
}

void ClusterWriter::links() {
  std::vector<DegreeLink> found = linksOf(page.facts.cluster, page.plan());
  if (found.empty())
    return;
  html.element("h3", "What travels over which link");
  openTable(html, "Links that each degree of parallelism uses",
            {{"Degree"}, {"Carries"}, {"Longest way"}, {"Bandwidth of a device, each direction"}});
  for (const DegreeLink &link : found) {
    std::vector<plan::LinkLevel> levels = page.facts.cluster.levelsAt(link.device);
    html.open("tr");
    html.element("th", {{"scope", "row"}},
                 link.degree + "=" + std::to_string(link.size) +
                     (link.ranks.empty() ? "" : ", " + link.ranks));
    html.element("td", purpose(link.degree));
    if (link.level < int(levels.size())) {
      const plan::LinkLevel &level = levels[link.level];
      html.open("td").name(level.name.empty() ? "level " + std::to_string(link.level) : level.name);
      html.close();
      html.element("td", bandwidthText(level.bandwidth));
    } else {
      html.element("td", "\u2013").element("td", "\u2013");
    }
    html.close();
  }
  html.close().close().close();
}

/// What each device is; of several types, each with its share of the devices.
static void writeDevices(Html &html, const Page &page) {
  const plan::Cluster &cluster = page.facts.cluster;
  std::vector<std::pair<std::string, int64_t>> types = deviceTypes(cluster, page.facts.devices);
  html.open("p", {{"class", "note"}});
  for (const auto &[name, count] : types) {
    int64_t first = 0;
    while (types.size() > 1 && cluster.deviceAt(first).name != name)
      ++first;
    plan::CostModel model(cluster, page.facts.devices, {first, 1});
    bool one = types.size() == 1;
    html.text(one ? "Each device is one "
                  : (first > 0 ? "; " : "") + std::to_string(count) + " are ");
    html.name(name).text(" with " + formatBytes(model.memoryPerRank()) + " of memory");
    if (double bandwidth = model.device().bandwidth; bandwidth > 0)
      html.text(" read at " + bandwidthText(bandwidth));
  }
  html.text(".").close();
}

void writeCluster(Html &html, const Page &page) {
  bool isPipeline = page.degrees().pp > 1;
  openSection(
      html, "cluster", "The cluster, and who holds what",
      std::string("Each box is a node, each cell one of its devices. Devices of the same "
                  "colour hold the same part of the model: ") +
          (isPipeline ? "the hue says which layers (the rank of the pipeline), " : "") +
          "the shade which part of every layer. Nodes that differ only in which copy of the "
          "model they hold are drawn once." +
          (page.degrees().zero > 0 ? " Which part of it each copy stores by ZeRO isn't shown."
                                   : ""));
  ClusterWriter writer(html, page);
  writer.groups();
  writeDevices(html, page);
  writer.links();
  html.close();
}

} // namespace dtc::report
