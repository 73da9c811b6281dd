#include "Streams.h"

#include <algorithm>

namespace dtc::simulate {

/// How many use a port's links of a level, the collective included.
int Streams::load(int32_t rank, bool incoming, int level) const {
  int count = 0;
  for (ActivityId id : ports[2 * rank + incoming])
    count += activities[id].level == level;
  const Activity &collective = activities[communication(rank)];
  return count + (collective.running && collective.level == level);
}

double Streams::rateOf(ActivityId id) const {
  const Activity &activity = activities[id];
  if (isCompute(id))
    return running(communication(rankOf(id))) ? 1 / slowdown.compute : 1;
  if (!isCommunication(id)) {
    if (activity.from < 0)
      return 1;
    int users = std::max(load(activity.from, false, activity.level),
                         load(activity.to, true, activity.level));
    return 1.0 / users;
  }
  int32_t rank = rankOf(id);
  double rate = running(compute(rank)) ? 1 / slowdown.communication : 1;
  if (activity.level < 0)
    return rate;
  return rate / std::max(load(rank, false, activity.level), load(rank, true, activity.level));
}

void Streams::note(ActivityId id) {
  if (activities[id].noted || !activities[id].running)
    return;
  activities[id].noted = true;
  notes.push_back(id);
}

void Streams::notePort(int32_t rank, bool incoming, int level) {
  for (ActivityId id : ports[2 * rank + incoming])
    if (activities[id].level == level)
      note(id);
}

/// A stream started or stopped: its rank's other stream and, beside a
/// collective, the transfers of its level.
void Streams::noteBeside(ActivityId stream) {
  int32_t rank = rankOf(stream);
  if (isCompute(stream))
    return note(communication(rank));
  note(compute(rank));
  if (activities[stream].level < 0)
    return;
  notePort(rank, false, activities[stream].level);
  notePort(rank, true, activities[stream].level);
}

void Streams::noteBesideTransfer(int32_t from, int32_t to, int level) {
  notePort(from, false, level);
  notePort(to, true, level);
  note(communication(from));
  note(communication(to));
}

void Streams::updateRates() {
  for (ActivityId id : notes) {
    Activity &activity = activities[id];
    activity.noted = false;
    double rate = activity.running ? rateOf(id) : activity.rate;
    if (rate == activity.rate)
      continue;
    activity.left = std::max(0.0, activity.left - (time - activity.since) * activity.rate);
    activity.since = time;
    activity.rate = rate;
    ends.push({time + activity.left / rate, sequence++, id, ++activity.version});
  }
  notes.clear();
}

void Streams::begin(ActivityId id, double seconds) {
  Activity &activity = activities[id];
  activity.left = seconds;
  activity.since = time;
  activity.rate = 0;
  activity.running = true;
  note(id);
}

void Streams::start(ActivityId stream, double seconds, int level) {
  activities[stream].level = level;
  activities[stream].begin = time;
  begin(stream, seconds);
  noteBeside(stream);
}

ActivityId Streams::send(int32_t from, int32_t to, double seconds, int level, double latency) {
  ActivityId id;
  if (unused.empty()) {
    id = int32_t(activities.size());
    activities.emplace_back();
  } else {
    id = unused.back();
    unused.pop_back();
  }
  Activity &activity = activities[id];
  activity.level = level;
  activity.latency = latency;
  activity.begin = time;
  if (seconds > 0) {
    activity.from = from;
    activity.to = to;
    port(from, false).push_back(id);
    port(to, true).push_back(id);
  }
  begin(id, seconds);
  if (seconds > 0)
    noteBesideTransfer(from, to, level);
  return id;
}

void Streams::forget(ActivityId transfer) { unused.push_back(transfer); }

void Streams::leavePorts(ActivityId transfer) {
  Activity &activity = activities[transfer];
  int32_t from = activity.from, to = activity.to;
  activity.from = activity.to = -1;
  std::erase(port(from, false), transfer);
  std::erase(port(to, true), transfer);
  noteBesideTransfer(from, to, activity.level);
}

ActivityId Streams::advance() {
  for (;;) {
    updateRates();
    if (ends.empty())
      return -1;
    End end = ends.top();
    ends.pop();
    Activity &activity = activities[end.id];
    if (!activity.running || activity.version != end.version)
      continue;
    time = end.seconds;
    if (!isCompute(end.id) && !isCommunication(end.id)) {
      if (activity.from >= 0)
        leavePorts(end.id);
      if (activity.latency > 0) { // the last byte is on its way
        double latency = activity.latency;
        activity.latency = 0;
        begin(end.id, latency);
        continue;
      }
      activity.running = false;
      return end.id;
    }
    activity.running = false;
    noteBeside(end.id);
    return end.id;
  }
}

} // namespace dtc::simulate
