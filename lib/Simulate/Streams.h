// What runs at a time, and how fast: the streams and ports of all ranks.
//
// Everything that runs has some seconds of work left and a rate at which they pass. The rate
// changes whenever something starts or stops beside it. What may have changed at a moment is
// collected and looked at once, before time goes on. Each change puts a new end into the queue, and
// an end whose version is old is skipped.
#pragma once

#include "dtc/Simulate/Simulate.h"

#include <queue>

namespace dtc::simulate {

using ActivityId = int32_t;

class Streams {
public:
  Streams(int64_t ranks, const OverlapSlowdown &slowdown)
      : ranks(ranks), slowdown(slowdown), activities(2 * ranks), ports(2 * ranks) {}

  ActivityId compute(int32_t rank) const { return rank; }
  ActivityId communication(int32_t rank) const { return int32_t(ranks) + rank; }
  bool isCompute(ActivityId id) const { return id < ranks; }
  bool isCommunication(ActivityId id) const { return id >= ranks && id < 2 * ranks; }
  int32_t rankOf(ActivityId id) const { return int32_t(id % ranks); }

  /// A stream begins work that takes `seconds` alone; `level`: links it uses.
  void start(ActivityId stream, double seconds, int level = -1);
  /// A message begins to travel; an id is given again after `forget`.
  ActivityId send(int32_t from, int32_t to, double seconds, int level, double latency);
  void forget(ActivityId transfer);

  /// Goes on to the next end and returns what ended, now stopped; -1: nothing runs.
  ActivityId advance();
  double now() const { return time; }
  bool running(ActivityId id) const { return activities[id].running; }
  /// When the activity began that runs or ran last.
  double begin(ActivityId id) const { return activities[id].begin; }

private:
  struct Activity {
    double left = 0, rate = 0, since = 0, begin = 0;
    double latency = 0; ///< of a transfer, once its bytes are sent
    uint32_t version = 0;
    bool running = false;
    bool noted = false; ///< its rate may have changed
    int level = -1;
    int32_t from = -1, to = -1; ///< of a transfer that occupies its ports
  };
  struct End {
    double seconds;
    uint64_t sequence; ///< of equal times the one found first
    ActivityId id;
    uint32_t version;
    bool operator>(const End &other) const {
      return seconds != other.seconds ? seconds > other.seconds : sequence > other.sequence;
    }
  };

  double rateOf(ActivityId id) const;
  int load(int32_t rank, bool incoming, int level) const;
  std::vector<ActivityId> &port(int32_t rank, bool incoming) { return ports[2 * rank + incoming]; }
  void begin(ActivityId id, double seconds);
  void note(ActivityId id);
  void notePort(int32_t rank, bool incoming, int level);
  void noteBeside(ActivityId stream);
  void noteBesideTransfer(int32_t from, int32_t to, int level);
  void updateRates();
  void leavePorts(ActivityId transfer);

  int64_t ranks;
  OverlapSlowdown slowdown;
  std::vector<Activity> activities; ///< compute streams, communication streams, transfers
  std::vector<std::vector<ActivityId>> ports; ///< by rank and direction: transfers on it
  std::vector<ActivityId> unused, notes;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  uint64_t sequence = 0;
  double time = 0;
};

} // namespace dtc::simulate
