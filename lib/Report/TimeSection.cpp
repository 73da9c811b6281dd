// The timetable, and where the step's time goes.
#include "Figures.h"
#include "Sections.h"
#include "Timetable.h"

#include "dtc/Report/Words.h"
#include "dtc/Schedule/Descriptor.h"

#include <algorithm>
#include <set>

namespace dtc::report {

using simulate::EventKind;

static constexpr size_t kMostBars = 32;

static std::vector<Swatch> activities(const Page &page) {
  std::set<EventKind> kinds;
  for (const simulate::Event &event : page.timeline.events)
    kinds.insert(event.kind);
  auto any = [&](std::initializer_list<EventKind> list) {
    return std::any_of(list.begin(), list.end(), [&](EventKind kind) { return kinds.count(kind); });
  };
  std::vector<Swatch> swatches = {{"call cf s0", "forward pass of a microbatch"}};
  bool isSplit = any({EventKind::WeightGrad});
  swatches.push_back({"call cb s0", isSplit ? "its backward pass: gradients of activations"
                                            : "its backward pass"});
  if (isSplit)
    swatches.push_back({"call cw s0", "gradients of weights"});
  if (any({EventKind::Prologue, EventKind::Update}))
    swatches.push_back({"call cu s0", "once a step: the update, with its communication"});
  if (any({EventKind::Overlapped, EventKind::Reduction}))
    swatches.push_back({"call cc", "communication beside it (strip below)"});
  swatches.push_back({"empty", "nothing: waiting"});
  return swatches;
}

void writeTimetable(Html &html, const Page &page) {
  const plan::Degrees &degrees = page.degrees();
  bool isPipeline = degrees.pp > 1;
  std::string about =
      "What " + std::string(isPipeline ? "every rank of the pipeline" : "every device") +
      " computes when, as the simulator plays the step through. A step's samples are cut into " +
      std::to_string(degrees.numMicrobatches) +
      (degrees.numMicrobatches == 1 ? " microbatch" : " microbatches") +
      "; each goes forward through the layers, then backward, which gives the gradients. Blocking "
      "communication is part of a pass.";
  openSection(html, "timetable", "The timetable of a step", about);
  if (isPipeline)
    html.element("p", describe(degrees.schedule).about);
  if (degrees.recompute != plan::Recompute::None)
    html.element("p", "Recomputation is part of the backward pass.");
  legend(html, activities(page));
  drawTimetable(html, page.timeline, degrees.chunks);
  html.close();
}

//===----------------------------------------------------------------------===//
// Where the time goes
//===----------------------------------------------------------------------===//

namespace {

/// Of a step, the mean of all ranks; together they are the step.
struct Part {
  std::string classes, label, id, meaning;
  double seconds = 0;
};

} // namespace

static const char *carries(const std::string &axis) {
  if (axis == "tp")
    return "waiting for partial results inside layers";
  if (axis == "dp")
    return "waiting for sums of gradients and for stored parameters";
  if (axis == "pp")
    return "waiting for what another stage sends";
  return "waiting for data that is on its way";
}

static std::vector<Part> partsOf(const Page &page) {
  const plan::StepParts &step = page.predicted().parts;
  Rates rates = ratesOf(page.predicted(), page.degrees(), page.facts);
  double peak = std::min(step.compute, rates.mfu * page.predicted().stepSeconds);
  std::vector<Part> parts;
  if (peak > 0)
    parts.push_back(
        {"t0", "arithmetic at the peak rate", "part_peak",
         "the model's matrix products, were every device as fast as its data sheet says", peak});
  parts.push_back({"t1", peak > 0 ? "the rest of computing" : "computing", "part_rest",
                   std::string("forward and backward passes: products below the peak rate") +
                       (rates.padding > 0 ? " and with padding" : "") + ", kernels that move bytes",
                   step.compute - peak});
  auto add = [&](Part part) {
    if (part.seconds > 1e-9 * page.predicted().stepSeconds) // not what rounding leaves
      parts.push_back(std::move(part));
  };
  add({"t4", "recomputation", "part_recompute", "activations that weren't kept", step.recompute});
  add({"t5", "update", "part_update", "the optimizer", step.update});
  for (const auto &[axis, seconds] : step.exposed)
    add({"t2", "exposed communication over " + axis, "part_exposed_" + axis, carries(axis),
         seconds});
  add({"t3", "pipeline bubble", "part_bubble", "waiting for other ranks of the pipeline",
       step.bubble});
  return parts;
}

static void writeParts(Html &html, const Page &page) {
  std::vector<Part> parts = partsOf(page);
  double step = page.predicted().stepSeconds;
  std::vector<Segment> segments;
  for (const Part &part : parts)
    segments.push_back({part.classes, part.label, part.seconds});
  stackedBar(html, "step-parts", "Where the time of a step goes, mean of all ranks", segments,
             step);
  openTable(html, "Parts of a step",
            {{""}, {"Part"}, {"Time", true}, {"Share", true}, {"What it is"}});
  for (const Part &part : parts) {
    html.open("tr").open("td").open("svg",
                                    {{"width", "14"}, {"height", "14"}, {"aria-hidden", "true"}});
    html.leaf("rect", {{"width", "14"}, {"height", "14"}, {"rx", "2"}, {"class", part.classes}});
    html.close().close().element("th", {{"scope", "row"}}, part.label);
    html.open("td", {{"class", "number"}});
    html.figure(part.id, part.seconds, formatSeconds(part.seconds)).close();
    html.element("td", {{"class", "number"}}, formatPercent(step > 0 ? part.seconds / step : 0));
    html.element("td", part.meaning).close();
  }
  html.close().close().close();
}

static void writeRanks(Html &html, const Page &page) {
  const auto &ranks = page.timeline.ranks;
  html.element("h3", "Every rank of the pipeline");
  legend(html, {{"t1", "computing"}, {"t2", "exposed communication"}, {"t3", "waiting"}});
  html.open("div", {{"class", "ranks"}});
  for (int32_t rank : rowsOf(ranks.size(), kMostBars)) {
    const simulate::RankTimeline &line = ranks[rank];
    std::string name = "rank " + std::to_string(rank);
    html.open("div").element("span", name);
    stackedBar(html, "parts-rank" + std::to_string(rank), name,
               {{"t1", "computing", line.computeSeconds},
                {"t2", "exposed communication", line.exposedSeconds},
                {"t3", "waiting", line.idleSeconds}},
               page.timeline.stepSeconds);
    html.close();
  }
  html.close();
  if (ranks.size() > kMostBars)
    html.element("p", {{"class", "note"}},
                 "The first and the last " + std::to_string(kMostBars / 2) + " of " +
                     std::to_string(ranks.size()) + " ranks.");
}

void writeTime(Html &html, const Page &page) {
  openSection(
      html, "time", "Where the time goes",
      "A step takes " + formatSeconds(page.predicted().stepSeconds) +
          ". Only arithmetic for the model is worth having; the rest is what a better plan, "
          "faster kernels or faster links could save. Means over all devices.");
  writeParts(html, page);
  if (page.timeline.ranks.size() > 1)
    writeRanks(html, page);
  html.close();
}

} // namespace dtc::report
