#include "Costs.h"

#include "dtc/Simulate/Trace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

using namespace dtc::simulate;
using dtc::schedule::ScheduleKind;
using dtc::schedule::ScheduleShape;
using nlohmann::json;

namespace {

/// Two ranks with everything that can happen.
Timeline richTimeline() {
  ScheduleShape shape{ScheduleKind::Interleaved, 2, 2, 4};
  Costs costs = equalStages(shape);
  for (StageCost &stage : costs.stages) {
    stage.forward.overlapped = 0.5;
    stage.reductionSeconds = 1;
  }
  for (Boundary &boundary : costs.boundaries)
    boundary = {5, 5, 1, 0.25, 0};
  for (RankCost &rank : costs.ranks)
    rank.prologue.compute = rank.update.compute = 1;
  return run(shape, costs, true);
}

/// Process and thread.
std::pair<int, int> threadOf(const json &event) {
  return {event["pid"].get<int>(), event["tid"].get<int>()};
}

json traceOf(const Timeline &timeline, const TraceNames &names = {}) {
  std::ostringstream out;
  writeTrace(out, timeline, names);
  return json::parse(out.str());
}

} // namespace

TEST(Trace, HasEveryEvent) {
  Timeline timeline = richTimeline();
  json trace = traceOf(timeline);
  std::map<std::string, size_t> phases;
  std::map<std::string, size_t> names;
  for (const json &event : trace["traceEvents"]) {
    ++phases[event["ph"]];
    if (event["ph"] == "X")
      ++names[event["cat"]];
  }
  EXPECT_EQ(phases["X"], timeline.events.size());
  EXPECT_EQ(phases["C"], timeline.ranks[0].memory.size() + timeline.ranks[1].memory.size());
  EXPECT_EQ(names["forward"], 16u);
  EXPECT_EQ(names["backward"], 16u);
  EXPECT_EQ(names["overlapped communication"], 16u);
  EXPECT_EQ(names["sum of gradients"], 4u);
  EXPECT_EQ(names["send activations"], 12u);
  EXPECT_EQ(names["send gradients"], 12u);
  EXPECT_EQ(names["prologue"], 2u);
  EXPECT_EQ(names["update"], 2u);
  EXPECT_EQ(trace["otherData"]["step_seconds"], timeline.stepSeconds);
}

/// Slices of a thread follow one another, else a viewer drops them.
TEST(Trace, SlicesOfAThreadDoNotOverlap) {
  std::map<std::pair<int, int>, double> free;
  std::set<std::pair<int, int>> threads;
  json trace = traceOf(richTimeline());
  for (const json &event : trace["traceEvents"])
    if (event["name"] == "thread_name")
      threads.insert(threadOf(event));
  for (const json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    std::pair<int, int> thread = threadOf(event);
    EXPECT_TRUE(threads.count(thread));
    EXPECT_GE(event["ts"].get<double>(), free[thread] - 1e-6) << event;
    free[thread] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_GT(threads.size(), 6u); // sends overlap in more than one lane
}

/// An arrow leads from a send to the call of the stage that waits for it.
TEST(Trace, ArrowsJoinSendsAndCalls) {
  json trace = traceOf(richTimeline());
  std::map<int, json> starts, slices;
  size_t arrows = 0;
  auto sliceAt = [&](const json &flow) {
    for (const json &event : trace["traceEvents"])
      if (event["ph"] == "X" && event["pid"] == flow["pid"] && event["tid"] == flow["tid"] &&
          event["ts"] == flow["ts"])
        return event;
    return json();
  };
  for (const json &event : trace["traceEvents"])
    if (event["ph"] == "s")
      starts[event["id"]] = event;
  for (const json &event : trace["traceEvents"]) {
    if (event["ph"] != "f")
      continue;
    ++arrows;
    json from = sliceAt(starts[event["id"]]), to = sliceAt(event);
    ASSERT_FALSE(from.is_null());
    ASSERT_FALSE(to.is_null());
    bool forward = from["cat"] == "send activations";
    EXPECT_EQ(to["cat"], forward ? "forward" : "backward");
    EXPECT_EQ(from["args"]["stage"].get<int>() + (forward ? 1 : -1), to["args"]["stage"]);
    EXPECT_EQ(from["args"]["microbatch"], to["args"]["microbatch"]);
    EXPECT_EQ(from["args"]["to rank"], to["pid"]);
  }
  EXPECT_EQ(arrows, 24u);
}

/// As Perfetto's importer takes a trace (trace_processor: importers/json, slice_tracker.cc and
/// flow_tracker.cc). Times become whole nanoseconds. Events are sorted by them and otherwise stay
/// in order. Slices of a thread that overlap are dropped. The end of an arrow belongs to the slice
/// that its thread began last.
class Importer {
public:
  Importer(const json &trace, double (*round)(double)) {
    std::vector<json> events;
    for (const json &event : trace["traceEvents"])
      if (event.contains("ts"))
        events.push_back(event);
    auto time = [&](const json &event) { return round(event["ts"].get<double>() * 1e3); };
    std::stable_sort(events.begin(), events.end(),
                     [&](const json &a, const json &b) { return time(a) < time(b); });
    std::map<std::pair<int, int>, std::pair<double, json>> last; // its end, the slice
    std::map<int, json> from;
    for (const json &event : events) {
      std::string phase = event["ph"];
      if (phase == "X") {
        auto &[end, slice] = last[threadOf(event)];
        if (!slice.is_null() && time(event) < end)
          ++dropped;
        end = time(event) + round(event["dur"].get<double>() * 1e3);
        slice = event;
        ++slices;
      } else if (phase == "s") {
        from[event["id"]] = last[threadOf(event)].second;
      } else if (phase == "f") {
        EXPECT_EQ(event["bp"], "e");
        flows.emplace_back(from[event["id"]], last[threadOf(event)].second);
      }
    }
  }
  size_t slices = 0, dropped = 0;
  std::vector<std::pair<json, json>> flows;
};

/// However times are rounded: many that fall together, and some that aren't whole.
TEST(Trace, PerfettoKeepsEverySliceAndArrow) {
  for (double unit : {1e-6, 1e-7 / 3, 2.5e-7, 0.1}) {
    Timeline timeline = richTimeline();
    for (Event &event : timeline.events)
      event.begin *= unit, event.end *= unit;
    json trace = traceOf(timeline);
    EXPECT_FALSE(trace.contains("displayTimeUnit"));
    for (auto *round : {+[](double t) { return std::trunc(t); }, +[](double t) { return std::round(t); }}) {
      Importer seen(trace, round);
      EXPECT_EQ(seen.slices, timeline.events.size());
      EXPECT_EQ(seen.dropped, 0u) << unit;
      EXPECT_EQ(seen.flows.size(), 24u);
      for (const auto &[from, to] : seen.flows) {
        ASSERT_TRUE(from.is_object() && to.is_object());
        bool forward = from["cat"] == "send activations";
        EXPECT_EQ(to["cat"], forward ? "forward" : "backward") << unit;
        EXPECT_EQ(from["args"]["stage"].get<int>() + (forward ? 1 : -1), to["args"]["stage"]);
        EXPECT_EQ(from["args"]["microbatch"], to["args"]["microbatch"]);
      }
    }
  }
}

TEST(Trace, AnyNameIsValidJson) {
  TraceNames names;
  names.title = "a \"model\"\n</script>\\ \x01";
  names.ranks = {"stage \xff", "layers 0\t- 3"};
  json trace = traceOf(richTimeline(), names);
  EXPECT_EQ(trace["otherData"]["title"], names.title);
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "stage \xEF\xBF\xBD");
  bool second = false;
  for (const json &event : trace["traceEvents"])
    second |= event["name"] == "process_name" && event["args"]["name"] == names.ranks[1];
  EXPECT_TRUE(second);
}

TEST(Trace, WithoutEventsThereAreNames) {
  json trace = traceOf(Timeline());
  EXPECT_TRUE(trace["traceEvents"].empty());
}
