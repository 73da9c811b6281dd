#include "dtc/Simulate/Trace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace dtc::simulate {

using nlohmann::ordered_json;

namespace {

/// Threads of a process; what is sent takes as many lanes as overlap.
enum Thread { kCompute = 1, kCommunication = 2, kSends = 3 };

class Writer {
public:
  Writer(std::ostream &out, const Timeline &timeline) : out(out), timeline(timeline) {}
  void write(const TraceNames &names);

private:
  /// Stage, microbatch, whether it is the forward pass.
  using Need = std::tuple<int32_t, int32_t, bool>;

  void emit(const ordered_json &event);
  void name(int64_t process, int64_t thread, const char *kind, const std::string &text);
  void nameRank(int64_t rank, const TraceNames &names);
  void slice(const Event &event);
  void beginArrow(const Event &event, int64_t thread);
  void endArrow(const Event &event);
  void counter(int64_t rank);
  int64_t laneOf(const Event &event);

  std::ostream &out;
  const Timeline &timeline;
  /// Calls that wait for something sent, and the arrow that leads to each; -1: none yet.
  std::map<Need, int64_t> calls;
  std::vector<std::vector<double>> lanes; ///< by rank: when each is free
  bool first = true;
  int64_t arrows = 0;
};

const char *nameOf(EventKind kind) {
  switch (kind) {
  case EventKind::Prologue:
    return "prologue";
  case EventKind::Forward:
    return "forward";
  case EventKind::Backward:
    return "backward";
  case EventKind::InputGrad:
    return "input gradient";
  case EventKind::WeightGrad:
    return "weight gradient";
  case EventKind::Update:
    return "update";
  case EventKind::Overlapped:
    return "overlapped communication";
  case EventKind::Reduction:
    return "sum of gradients";
  case EventKind::SendForward:
    return "send activations";
  case EventKind::SendBackward:
    return "send gradients";
  }
  return "unknown";
}

bool isSend(EventKind kind) {
  return kind == EventKind::SendForward || kind == EventKind::SendBackward;
}

/// Of those that wait for the stage before or after.
bool isWaiting(EventKind kind) {
  return kind == EventKind::Forward || kind == EventKind::Backward || kind == EventKind::InputGrad;
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// A moment in whole nanoseconds, which is what Perfetto cuts times down to.
double timestamp(double seconds) { return double(nanoseconds(seconds)) / 1e3; }

/// A nanosecond short, so that however a reader rounds, a slice is over when the next one of its
/// thread begins. Perfetto drops slices that overlap.
double duration(const Event &event) {
  int64_t length = nanoseconds(event.end) - nanoseconds(event.begin);
  return double(std::max<int64_t>(length - 1, 0)) / 1e3;
}

} // namespace

void Writer::emit(const ordered_json &event) {
  out << (first ? "\n" : ",\n")
      << event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  first = false;
}

void Writer::name(int64_t process, int64_t thread, const char *kind, const std::string &text) {
  emit({{"ph", "M"}, {"pid", process}, {"tid", thread}, {"name", kind},
        {"args", {{"name", text}}}});
}

void Writer::nameRank(int64_t rank, const TraceNames &names) {
  bool named = size_t(rank) < names.ranks.size();
  name(rank, 0, "process_name", named ? names.ranks[rank] : "rank " + std::to_string(rank));
  emit({{"ph", "M"}, {"pid", rank}, {"tid", 0}, {"name", "process_sort_index"},
        {"args", {{"sort_index", rank}}}});
  name(rank, kCompute, "thread_name", "compute");
  name(rank, kCommunication, "thread_name", "communication");
  name(rank, kSends, "thread_name", "sends");
}

/// The first of a rank's lanes of sends that is free, so that none overlap.
int64_t Writer::laneOf(const Event &event) {
  std::vector<double> &ends = lanes[event.rank];
  size_t lane = 0;
  while (lane < ends.size() && ends[lane] > event.begin)
    ++lane;
  if (lane == ends.size()) {
    ends.push_back(0);
    if (lane > 0)
      name(event.rank, kSends + int64_t(lane), "thread_name",
           "sends (" + std::to_string(lane + 1) + ")");
  }
  ends[lane] = event.end;
  return kSends + int64_t(lane);
}

/// From what is sent to the call that waits for it. Either end belongs to the slice
/// before it in the file, which is how Perfetto binds them where times are equal.
void Writer::beginArrow(const Event &event, int64_t thread) {
  bool forward = event.kind == EventKind::SendForward;
  auto call = calls.find({event.stage + (forward ? 1 : -1), event.microbatch, forward});
  if (call == calls.end())
    return;
  call->second = arrows++;
  emit({{"ph", "s"}, {"pid", event.rank}, {"tid", thread}, {"ts", timestamp(event.begin)},
        {"id", call->second}, {"name", "send"}, {"cat", "send"}});
}

void Writer::endArrow(const Event &event) {
  auto call = calls.find({event.stage, event.microbatch, event.kind == EventKind::Forward});
  if (call == calls.end() || call->second < 0)
    return;
  emit({{"ph", "f"}, {"bp", "e"}, {"pid", event.rank}, {"tid", int64_t(kCompute)},
        {"ts", timestamp(event.begin)}, {"id", call->second}, {"name", "send"}, {"cat", "send"}});
}

void Writer::slice(const Event &event) {
  bool communicates = event.kind == EventKind::Overlapped || event.kind == EventKind::Reduction;
  int64_t thread = isSend(event.kind) ? laneOf(event)
                   : communicates     ? int64_t(kCommunication)
                                      : int64_t(kCompute);
  std::string text = nameOf(event.kind);
  ordered_json args = ordered_json::object();
  if (event.chunk >= 0)
    args["stage"] = event.stage;
  if (event.microbatch >= 0) {
    text += " " + std::to_string(event.microbatch);
    args["microbatch"] = event.microbatch;
  }
  if (event.peer >= 0)
    args["to rank"] = event.peer;
  emit({{"ph", "X"}, {"pid", event.rank}, {"tid", thread}, {"ts", timestamp(event.begin)},
        {"dur", duration(event)}, {"name", text}, {"cat", nameOf(event.kind)},
        {"args", args}});
  if (isSend(event.kind))
    beginArrow(event, thread);
  else if (isWaiting(event.kind))
    endArrow(event);
}

void Writer::counter(int64_t rank) {
  for (const MemoryPoint &point : timeline.ranks[rank].memory)
    emit({{"ph", "C"}, {"pid", rank}, {"tid", 0}, {"ts", timestamp(point.seconds)},
          {"name", "memory"}, {"args", {{"bytes", point.bytes}}}});
}

void Writer::write(const TraceNames &names) {
  for (const Event &event : timeline.events)
    if (isWaiting(event.kind))
      calls.emplace(Need{event.stage, event.microbatch, event.kind == EventKind::Forward}, -1);
  lanes.resize(timeline.ranks.size());
  // No displayTimeUnit: there were readers that took it for the unit of the times.
  out << "{\"otherData\":"
      << ordered_json({{"title", names.title}, {"step_seconds", timeline.stepSeconds}})
             .dump(-1, ' ', false, ordered_json::error_handler_t::replace)
      << ",\"traceEvents\":[";
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    nameRank(int64_t(rank), names);
  for (const Event &event : timeline.events)
    slice(event);
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    counter(int64_t(rank));
  out << "\n]}\n";
}

void writeTrace(std::ostream &out, const Timeline &timeline, const TraceNames &names) {
  Writer(out, timeline).write(names);
}

} // namespace dtc::simulate
