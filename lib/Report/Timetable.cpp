#include "Timetable.h"

#include "Figures.h"
#include "Sections.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtc::report {

using simulate::Event;
using simulate::EventKind;
using simulate::Timeline;

static constexpr double kWidth = 1060, kLeft = 64, kTop = 6, kRowGap = 3;

Activity activityOf(EventKind kind) {
  switch (kind) {
  case EventKind::Forward:
    return Activity::Forward;
  case EventKind::Backward:
  case EventKind::InputGrad:
    return Activity::Backward;
  case EventKind::WeightGrad:
    return Activity::WeightGrad;
  case EventKind::Prologue:
  case EventKind::Update:
    return Activity::Once;
  case EventKind::Overlapped:
  case EventKind::Reduction:
  case EventKind::SendForward:
  case EventKind::SendBackward:
    return Activity::None;
  }
  return Activity::None;
}

static bool isBeside(EventKind kind) {
  return kind == EventKind::Overlapped || kind == EventKind::Reduction;
}

Shares sharesOf(const Timeline &timeline, int32_t rank, size_t bins) {
  Shares shares(bins, {0, 0, 0, 0});
  double width = timeline.stepSeconds / double(bins);
  if (!(width > 0))
    return shares;
  for (const Event &event : timeline.events) {
    Activity activity = activityOf(event.kind);
    if (event.rank != rank || activity == Activity::None)
      continue;
    auto first = size_t(std::clamp(event.begin / width, 0.0, double(bins - 1)));
    auto last = size_t(std::clamp(event.end / width, 0.0, double(bins - 1)));
    for (size_t bin = first; bin <= last; ++bin) {
      double from = std::max(event.begin, double(bin) * width);
      double to = std::min(event.end, double(bin + 1) * width);
      shares[bin][size_t(activity)] += std::max(0.0, to - from) / width;
    }
  }
  return shares;
}

std::vector<int32_t> rowsOf(size_t ranks, size_t most) {
  std::vector<int32_t> rows;
  for (size_t rank = 0; rank < ranks; ++rank)
    if (ranks <= most || rank < most / 2 || rank >= ranks - most / 2)
      rows.push_back(int32_t(rank));
  return rows;
}

namespace {

/// Rectangles of one look in one path, which is much shorter than an element each.
class Path {
public:
  void add(double x, double y, double width, double height) {
    data += "M" + number(x) + " " + number(y) + "h" + number(width) + "v" + number(height) + "h-" +
            number(width) + "z";
  }
  void write(Html &html, const std::string &classes) {
    if (!data.empty())
      html.leaf("path", {{"class", classes}, {"d", data}});
    data.clear();
  }

private:
  std::string data;
};

class Drawing {
public:
  Drawing(Html &html, const Timeline &timeline, int64_t chunks, const TimetableLimits &limits)
      : html(html), timeline(timeline), chunks(std::max<int64_t>(chunks, 1)), limits(limits),
        byRank(timeline.ranks.size()) {
    for (const Event &event : timeline.events)
      byRank[event.rank].push_back(&event);
  }
  void run();

private:
  void whole();
  void window(const std::string &id, const std::string &title, double from, double to);
  void overview(size_t calls);
  double frame(const std::string &id, const std::string &title, const std::string &text,
               const std::vector<int32_t> &rows, const Scale &scale);
  void calls(int32_t rank, double y, const Scale &scale);
  void columns(int32_t rank, double y, size_t bins);
  std::string classesOf(const Event &event) const;
  double rowHeight() const {
    return timeline.ranks.size() == 1 ? 34 : timeline.ranks.size() <= 8 ? 24 : 18;
  }
  double callSeconds() const;

  Html &html;
  const Timeline &timeline;
  int64_t chunks;
  TimetableLimits limits;
  std::vector<std::vector<const Event *>> byRank;
};

} // namespace

/// The kind and, of several, the chunk as a shade.
std::string Drawing::classesOf(const Event &event) const {
  static const char *kinds[] = {"cf", "cb", "cw", "cu", ""};
  int64_t shade = event.chunk > 0 ? event.chunk * 8 / chunks : 0;
  return std::string("call ") + kinds[size_t(activityOf(event.kind))] + " s" +
         std::to_string(std::min<int64_t>(shade, 7));
}

static std::string rankLabel(const Timeline &timeline, int32_t rank) {
  return timeline.ranks.size() == 1 ? "devices" : "rank " + std::to_string(rank);
}

/// Axis, labels and empty rows; returns the y of the first row.
double Drawing::frame(const std::string &id, const std::string &title, const std::string &text,
                      const std::vector<int32_t> &rows, const Scale &scale) {
  double height = rowHeight(), bottom = kTop + double(rows.size()) * (height + kRowGap);
  openWide(html, title);
  openDrawing(html, id, kWidth, bottom + 20, title, text);
  for (size_t i = 0; i < rows.size(); ++i) {
    double y = kTop + double(i) * (height + kRowGap);
    html.leaf("rect", {{"x", number(scale.begin)},
                       {"y", number(y)},
                       {"width", number(scale.end - scale.begin)},
                       {"height", number(height)},
                       {"class", "empty"}});
    html.element("text",
                 {{"x", number(kLeft - 8)}, {"y", number(y + height / 2 + 4)}, {"class", "end"}},
                 rankLabel(timeline, rows[i]));
  }
  timeAxis(html, scale, kTop, bottom);
  return kTop;
}

void Drawing::calls(int32_t rank, double y, const Scale &scale) {
  constexpr double kStrip = 4;
  double height = rowHeight();
  bool hasStrip = std::any_of(timeline.events.begin(), timeline.events.end(),
                              [](const Event &event) { return isBeside(event.kind); });
  double callHeight = height - (hasStrip ? kStrip + 1 : 0);
  std::map<std::string, Path> paths;
  struct Label {
    double x;
    int32_t microbatch;
  };
  std::vector<Label> labels;
  for (const Event *event : byRank[rank]) {
    if (event->end <= scale.from || event->begin >= scale.to)
      continue;
    double x = scale(std::max(event->begin, scale.from));
    double width = scale(std::min(event->end, scale.to)) - x;
    if (isBeside(event->kind))
      paths["call cc"].add(x, y + height - kStrip, width, kStrip);
    else if (activityOf(event->kind) != Activity::None) {
      // A hairline between calls, where there is room for one.
      paths[classesOf(*event)].add(x, y, std::max(width - (width > 3 ? 0.8 : 0.0), 0.1),
                                   callHeight);
      double needed = event->microbatch > 9 ? event->microbatch > 99 ? 21 : 15 : 9;
      if (event->microbatch >= 0 && width >= needed)
        labels.push_back({x + (width - 0.8) / 2, event->microbatch});
    }
  }
  for (auto &[classes, path] : paths)
    path.write(html, classes);
  html.open("g", {{"class", "mid"}});
  for (const Label &label : labels)
    html.element("text", {{"x", number(label.x)}, {"y", number(y + callHeight / 2 + 4)}},
                 std::to_string(label.microbatch));
  html.close();
}

/// Stacked: each kind is drawn with those below it, the whole stack first.
void Drawing::columns(int32_t rank, double y, size_t bins) {
  static const char *classes[] = {"call cf s0", "call cb s0", "call cw s0", "call cu s0"};
  double height = rowHeight(), width = (kWidth - kLeft) / double(bins);
  Shares shares = sharesOf(timeline, rank, bins);
  for (size_t kind = 4; kind-- > 0;) {
    bool any = false;
    std::string path = "M" + number(kLeft) + " " + number(y + height);
    double last = 0;
    for (size_t bin = 0; bin < bins; ++bin) {
      double sum = 0;
      for (size_t below = 0; below <= kind; ++below)
        sum += shares[bin][below];
      any |= shares[bin][kind] > 0;
      double level = std::round(2 * height * std::min(1.0, sum)) / 2;
      if (level != last)
        path += "H" + number(kLeft + double(bin) * width) + "V" + number(y + height - level);
      last = level;
    }
    if (any)
      html.leaf("path", {{"class", classes[kind]},
                         {"d", path + "H" + number(kWidth) + "V" + number(y + height) + "z"}});
  }
}

/// The mean call of the rank that makes most.
double Drawing::callSeconds() const {
  double seconds = 0;
  size_t most = 0;
  for (const auto &events : byRank) {
    double sum = 0;
    size_t count = 0;
    for (const Event *event : events)
      if (event->microbatch >= 0 && activityOf(event->kind) != Activity::None)
        sum += event->end - event->begin, ++count;
    if (count > most)
      most = count, seconds = sum / double(count);
  }
  return seconds;
}

void Drawing::window(const std::string &id, const std::string &title, double from, double to) {
  Scale scale{from, to, kLeft, kWidth - 8};
  std::vector<int32_t> rows = rowsOf(timeline.ranks.size(), limits.rows);
  double y =
      frame(id, title, title + ", a row for each rank of the pipeline; numbers are microbatches.",
            rows, scale);
  for (int32_t rank : rows) {
    calls(rank, y, scale);
    y += rowHeight() + kRowGap;
  }
  html.close().close();
}

void Drawing::overview(size_t calls) {
  std::vector<int32_t> rows = rowsOf(timeline.ranks.size(), limits.overviewRows);
  // Each of several calls, or columns would show which of them it cuts.
  size_t bins = std::min(std::clamp<size_t>(calls / 6, 40, 160), 4000 / rows.size());
  double y = frame("timetable-whole", "The whole step",
                   "For every rank of the pipeline, which share of each moment goes into forward "
                   "and backward passes.",
                   rows, {0, timeline.stepSeconds, kLeft, kWidth});
  for (int32_t rank : rows) {
    columns(rank, y, bins);
    y += rowHeight() + kRowGap;
  }
  html.close().close();
}

void Drawing::run() {
  size_t most = 0;
  for (const auto &events : byRank)
    most =
        std::max<size_t>(most, std::count_if(events.begin(), events.end(), [](const Event *event) {
                           return activityOf(event->kind) != Activity::None;
                         }));
  size_t ranks = timeline.ranks.size();
  bool isShort = most <= limits.callsInWhole;
  double seconds = callSeconds() * double(limits.callsInWindow);
  if (isShort || !(seconds > 0) || 2 * seconds >= timeline.stepSeconds) {
    html.element("h3", "The whole step, call by call");
    window("timetable-calls", "The whole step, call by call", 0, timeline.stepSeconds);
  } else {
    html.element("h3", "The whole step");
    html.element(
        "p", {{"class", "note"}},
        "Up to " + std::to_string(most) +
            " calls a rank are too many to draw one by one: "
            "columns show which share of each moment goes into what. The beginning and the end "
            "follow call by call.");
    overview(most);
    html.element("h3", "The beginning");
    window("timetable-begin", "The beginning of the step, call by call", 0, seconds);
    html.element("h3", "The end");
    window("timetable-end", "The end of the step, call by call", timeline.stepSeconds - seconds,
           timeline.stepSeconds);
  }
  size_t shown = isShort ? limits.rows : limits.overviewRows;
  if (ranks > limits.rows)
    html.element("p", {{"class", "note"}},
                 "Of " + std::to_string(ranks) + " ranks the first and the last " +
                     std::to_string(limits.rows / 2) + " are drawn call by call" +
                     (ranks > shown ? ", in the whole those " + std::to_string(shown / 2) : "") +
                     ".");
}

void drawTimetable(Html &html, const Timeline &timeline, int64_t chunks,
                   const TimetableLimits &limits) {
  if (!timeline.events.empty() && timeline.stepSeconds > 0)
    Drawing(html, timeline, chunks, limits).run();
}

} // namespace dtc::report
