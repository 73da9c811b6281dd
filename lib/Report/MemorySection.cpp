#include "Memory.h"

#include "Figures.h"
#include "Sections.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <cstdio>

namespace dtc::report {

using plan::MemoryUse;
using simulate::MemoryPoint;

static constexpr size_t kMostCurves = 8, kMostBars = 64;
static constexpr int64_t kColumns = 240;

std::vector<double> highestPerColumn(const std::vector<MemoryPoint> &points, double seconds,
                                     size_t columns) {
  std::vector<double> highest(columns, 0);
  double bytes = 0;
  size_t reached = 0; // columns before it are final
  auto hold = [&](double until) {
    auto last = size_t(std::clamp(until / seconds * double(columns), 0.0, double(columns - 1)));
    for (size_t column = reached; column <= last; ++column)
      highest[column] = std::max(highest[column], bytes);
    reached = last;
  };
  if (!(seconds > 0) || columns == 0)
    return highest;
  for (size_t i = 0; i < points.size(); ++i) {
    // Of several at one moment only the last lasts.
    if (i + 1 < points.size() && points[i + 1].seconds <= points[i].seconds)
      continue;
    hold(points[i].seconds);
    bytes = points[i].bytes;
    hold(points[i].seconds);
  }
  hold(seconds);
  return highest;
}

std::vector<int32_t> chooseRanks(const std::vector<double> &peaks, size_t most) {
  std::vector<int32_t> chosen;
  size_t count = peaks.size();
  if (count <= most) {
    for (size_t rank = 0; rank < count; ++rank)
      chosen.push_back(int32_t(rank));
    return chosen;
  }
  auto add = [&](size_t rank) {
    if (chosen.size() < most &&
        std::find(chosen.begin(), chosen.end(), int32_t(rank)) == chosen.end())
      chosen.push_back(int32_t(rank));
  };
  add(std::max_element(peaks.begin(), peaks.end()) - peaks.begin());
  add(0);
  add(count - 1);
  for (size_t i = 1; i + 1 < most; ++i)
    add(i * (count - 1) / (most - 1));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

const std::vector<MemoryKind> &memoryKinds() {
  static const std::vector<MemoryKind> kinds = {
      {"parameters", "the weights, and buffers", &MemoryUse::parameters},
      {"gradients", "one number per trained weight, summed over microbatches",
       &MemoryUse::gradients},
      {"optimizer", "the optimizer's running averages and full-precision copies",
       &MemoryUse::optimizer},
      {"data", "inputs and targets of a step", &MemoryUse::data},
      {"reserved", "the driver's context, library workspace and communication buffers",
       &MemoryUse::reserved},
      {"cached", "what the program's allocator keeps beyond tensors", &MemoryUse::cached},
      {"activations", "results that the backward pass needs again, and temporaries",
       &MemoryUse::activations},
  };
  return kinds;
}

namespace {

class MemoryWriter {
public:
  MemoryWriter(Html &html, const Page &page) : html(html), page(page) {
    for (size_t rank = 0; rank < page.timeline.ranks.size(); ++rank)
      top = std::max(top, double(use(rank).total()));
    double capacity = 0;
    for (size_t rank = 0; rank < page.timeline.ranks.size(); ++rank)
      capacity = std::max(capacity, capacityOf(rank));
    hasLimit = capacity > 0 && capacity < 2.5 * top;
    top = 1.06 * std::max(top, hasLimit ? capacity : 0);
  }
  bool showsCapacity() const { return hasLimit; }
  void table();
  void bars();
  void curves();
  /// Only programs with an allocator of their own cache.
  bool shows(size_t kind) const {
    return memoryKinds()[kind].bytes != &MemoryUse::cached || page.predicted().memory.cached > 0;
  }

private:
  const MemoryUse &use(size_t rank) const { return page.predicted().stages.at(rank).memory; }
  double capacityOf(size_t rank) const { return page.predicted().stages.at(rank).memoryCapacity; }
  size_t ranks() const { return page.timeline.ranks.size(); }
  void curve(int32_t rank);
  void axis(const Scale &y, double left, double right);
  void limit(double height, double left, double right);

  Html &html;
  const Page &page;
  double top = 0;        ///< of the axes, bytes
  bool hasLimit = false; ///< the capacity is within them
};

} // namespace

static std::string classOf(size_t kind) { return "k" + std::to_string(kind); }

/// Of the rank that fills its device most.
void MemoryWriter::table() {
  const MemoryUse &memory = page.predicted().memory;
  double whole = hasLimit ? page.predicted().memoryCapacity : double(memory.total());
  openTable(html, "Memory of the fullest device",
            {{"Kind"}, {"Bytes", true}, {hasLimit ? "Of the capacity" : "Of all"}, {"What it is"}});
  for (size_t kind = 0; kind < memoryKinds().size(); ++kind) {
    const MemoryKind &row = memoryKinds()[kind];
    if (!shows(kind))
      continue;
    auto bytes = double(memory.*row.bytes);
    html.open("tr").element("th", {{"scope", "row"}}, row.name);
    html.open("td", {{"class", "number"}});
    html.figure("memory_" + std::string(row.name), bytes, formatBytes(bytes)).close().open("td");
    smallBar(html, bytes, whole, classOf(kind));
    html.close().element("td", row.meaning).close();
  }
  html.open("tr", {{"class", "total"}}).element("th", {{"scope", "row"}}, "together");
  html.element("td", {{"class", "number"}}, formatBytes(double(memory.total()))).open("td");
  smallBar(html, double(memory.total()), whole, "accent");
  html.close().element("td", "of " + formatBytes(page.predicted().memoryCapacity)).close();
  html.close().close().close();
}

/// "64 GiB".
static std::string bytesTick(double bytes) {
  static const char *units[] = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  char text[64];
  std::snprintf(text, sizeof(text), "%.4g %s", bytes, units[unit]);
  return text;
}

void MemoryWriter::axis(const Scale &y, double left, double right) {
  for (double tick : ticks(top, 5, true)) {
    html.leaf("line", {{"x1", number(left)},
                       {"x2", number(right)},
                       {"y1", number(y(tick))},
                       {"y2", number(y(tick))},
                       {"class", "grid"}});
    html.element("text", {{"x", number(left - 6)}, {"y", number(y(tick) + 4)}, {"class", "end"}},
                 bytesTick(tick));
  }
}

void MemoryWriter::limit(double height, double left, double right) {
  if (hasLimit)
    html.leaf("line", {{"x1", number(left)},
                       {"x2", number(right)},
                       {"y1", number(height)},
                       {"y2", number(height)},
                       {"class", "limit"}});
}

/// The peak of every rank, by kind.
void MemoryWriter::bars() {
  constexpr double kWidth = 1060, kLeft = 76, kHeight = 190, kTop = 8;
  size_t count = std::min(ranks(), kMostBars);
  Scale y{0, top, kHeight, kTop};
  html.element("h3", "The highest moment of every rank of the pipeline");
  openWide(html, "Peak memory by pipeline rank");
  openDrawing(html, "memory-peaks", kWidth, kHeight + 22, "Peak memory by pipeline rank",
              "A bar for each rank, stacked by what the memory is for.");
  axis(y, kLeft, kWidth - 8);
  double step = (kWidth - 8 - kLeft) / double(count), width = std::min(step * 0.72, 60.0);
  // A line across all ranks whose devices are equal.
  for (size_t first = 0, rank = 1; rank <= count; ++rank)
    if (rank == count || capacityOf(rank) != capacityOf(first)) {
      limit(y(capacityOf(first)), kLeft + double(first) * step, kLeft + double(rank) * step);
      first = rank;
    }
  for (size_t rank = 0; rank < count; ++rank) {
    double x = kLeft + (double(rank) + 0.5) * step, below = 0;
    for (size_t kind = 0; kind < memoryKinds().size(); ++kind) {
      auto bytes = double(use(rank).*memoryKinds()[kind].bytes);
      double height = y(below) - y(below + bytes);
      if (height > 0.05)
        html.leaf("rect", {{"x", number(x - width / 2)},
                           {"y", number(y(below + bytes))},
                           {"width", number(width)},
                           {"height", number(height)},
                           {"class", classOf(kind)}});
      below += bytes;
    }
    if (count <= 24 || rank % 4 == 0)
      html.element("text", {{"x", number(x)}, {"y", number(kHeight + 15)}, {"class", "mid"}},
                   std::to_string(rank));
  }
  html.close().close();
  if (count < ranks())
    html.element("p", {{"class", "note"}},
                 "Of " + std::to_string(ranks()) + " ranks the first " + std::to_string(count) +
                     " are drawn.");
}

void MemoryWriter::curve(int32_t rank) {
  constexpr double kWidth = 520, kLeft = 66, kHeight = 150, kTop = 8;
  Scale y{0, top, kHeight, kTop}, x{0, page.timeline.stepSeconds, kLeft, kWidth - 10};
  std::string id = "memory-rank" + std::to_string(rank);
  std::string title = ranks() == 1 ? "Every device" : "Pipeline rank " + std::to_string(rank);
  html.open("figure", {{"class", "small-multiple"}});
  html.element("figcaption", title + ": peak " + formatBytes(double(use(rank).total())));
  openDrawing(html, id, kWidth, kHeight + 20, title + ", memory over the step",
              "What stays all the time below, activations above it.");
  double resident = 0;
  for (size_t kind = 0; kind < memoryKinds().size(); ++kind) {
    if (memoryKinds()[kind].bytes == &MemoryUse::activations)
      continue;
    auto bytes = double(use(rank).*memoryKinds()[kind].bytes);
    double height = y(resident) - y(resident + bytes);
    if (height > 0.05)
      html.leaf("rect", {{"x", number(x.begin)},
                         {"y", number(y(resident + bytes))},
                         {"width", number(x.end - x.begin)},
                         {"height", number(height)},
                         {"class", classOf(kind)}});
    resident += bytes;
  }
  std::vector<double> highest =
      highestPerColumn(page.timeline.ranks[rank].memory, page.timeline.stepSeconds, kColumns);
  double width = (x.end - x.begin) / double(kColumns);
  std::string path = "M" + number(x.begin) + " " + number(y(resident));
  double last = -1;
  for (size_t column = 0; column < highest.size(); ++column) {
    double at = y(std::max(highest[column], resident));
    if (at != last)
      path += "H" + number(x.begin + double(column) * width) + "V" + number(at);
    last = at;
  }
  html.leaf("path", {{"class", classOf(memoryKinds().size() - 1)},
                     {"d", path + "H" + number(x.end) + "V" + number(y(resident)) + "z"}});
  axis(y, x.begin, x.end);
  limit(y(capacityOf(size_t(rank))), x.begin, x.end);
  timeAxis(html, x, kTop, kHeight, 5);
  html.close().close();
}

void MemoryWriter::curves() {
  std::vector<double> peaks;
  for (size_t rank = 0; rank < ranks(); ++rank)
    peaks.push_back(double(use(rank).total()));
  std::vector<int32_t> chosen = chooseRanks(peaks, kMostCurves);
  html.element("h3", "Over the step");
  std::string note =
      "Each point is the most that is held within 1/" + std::to_string(kColumns) + " of the step.";
  if (chosen.size() < ranks())
    note += " " + std::to_string(chosen.size()) + " of " + std::to_string(ranks()) +
            " ranks are drawn, the fullest among them.";
  html.element("p", {{"class", "note"}}, note);
  html.open("div", {{"class", "multiples"}});
  for (int32_t rank : chosen)
    curve(rank);
  html.close();
}

/// Of all types of devices: "80.0 GiB", "80.0 GiB and 40.0 GiB".
static std::string capacitiesText(const plan::Prediction &predicted) {
  std::vector<double> known;
  std::string text;
  for (const plan::StagePrediction &stage : predicted.stages) {
    if (std::find(known.begin(), known.end(), stage.memoryCapacity) != known.end())
      continue;
    text += (known.empty() ? "" : " and ") + formatBytes(stage.memoryCapacity);
    known.push_back(stage.memoryCapacity);
  }
  return text;
}

void writeMemory(Html &html, const Page &page) {
  const MemoryUse &memory = page.predicted().memory;
  double capacity = page.predicted().memoryCapacity;
  std::string about =
      "A plan is only good if it fits: every device must at every moment hold what is "
      "stacked here. The fullest needs " +
      formatBytes(double(memory.total())) + " of the " + formatBytes(capacity) + " that it has";
  if (capacity > 0)
    about += " (" + formatPercent(double(memory.total()) / capacity) + ")";
  openSection(html, "memory", "Memory", about + ".");
  MemoryWriter writer(html, page);
  std::vector<Swatch> swatches;
  for (size_t kind = 0; kind < memoryKinds().size(); ++kind)
    if (writer.shows(kind))
      swatches.push_back({classOf(kind), memoryKinds()[kind].name});
  swatches.push_back(
      {"limit-swatch", "capacity (" + capacitiesText(page.predicted()) +
                           (writer.showsCapacity() ? ")" : ", above the pictures)")});
  legend(html, swatches);
  if (page.timeline.ranks.size() > 1)
    writer.bars();
  writer.curves();
  html.element("h3", "The fullest device, at its highest moment");
  writer.table();
  html.close();
}

} // namespace dtc::report
