#include "HeldUp.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace dtc::rt {
namespace {

/// Of all threads but the one that asks. A thread that ends meanwhile is left out.
ThreadTimes readTimes() {
  const int64_t tick = 1000 / std::max(1L, ::sysconf(_SC_CLK_TCK));
  ThreadTimes times;
  std::error_code error;
  std::filesystem::directory_iterator task("/proc/self/task", error), end;
  for (; !error && task != end; task.increment(error)) {
    const int thread = std::stoi(task->path().filename().string());
    std::ifstream file(task->path() / "stat");
    std::string line;
    if (thread == ::gettid() || !std::getline(file, line))
      continue;
    if (std::optional<ThreadTime> time = parseThreadTime(line, tick))
      times[thread] = *time;
  }
  return times;
}

} // namespace

std::optional<ThreadTime> parseThreadTime(std::string_view line, int64_t tick) {
  const size_t nameEnd = line.rfind(')'); // names of threads may have anything
  if (nameEnd == std::string_view::npos)
    return std::nullopt;
  std::istringstream rest{std::string(line.substr(nameEnd + 1))};
  ThreadTime time;
  constexpr int kBetween = 10; // from the state to the times
  std::string skipped;
  rest >> time.state;
  for (int i = 0; i < kBetween; ++i)
    rest >> skipped;
  int64_t user = 0, system = 0;
  if (!(rest >> user >> system))
    return std::nullopt;
  time.processor = (user + system) * tick;
  return time;
}

/// A step that takes ten times as long as before is within what a rank waits.
std::set<int> heldUpThreads(const ThreadTimes &before, const ThreadTimes &after, int64_t passed) {
  constexpr int64_t kLeastShare = 10;
  std::set<int> held;
  for (const auto &[thread, time] : after) {
    auto known = before.find(thread);
    const int64_t took = known == before.end() ? 0 : time.processor - known->second.processor;
    if (time.state == 'D' || (time.state == 'R' && took * kLeastShare < passed))
      held.insert(thread);
  }
  return held;
}

/// Who waits may wake now and then to look whether it still has to.
bool areIdle(const ThreadTimes &before, const ThreadTimes &after, int64_t passed) {
  constexpr int64_t kMostShare = 50;
  int64_t took = 0;
  for (const auto &[thread, time] : after) {
    auto known = before.find(thread);
    took += time.processor - (known == before.end() ? 0 : known->second.processor);
    if (time.state == 'D')
      return false;
  }
  return took * kMostShare <= passed;
}

/// Threads that only wake for a moment are looked at again.
HeldUp::Seen HeldUp::look() {
  const auto now = std::chrono::steady_clock::now();
  ThreadTimes seen = readTimes();
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - last).count();
  std::set<int> held = heldUpThreads(times, seen, passed);
  if (!held.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::set<int> still = heldUpThreads(times, readTimes(), passed);
    std::erase_if(held, [&](int thread) { return !still.contains(thread); });
  }
  const Seen result{seen.empty() || !held.empty(),
                    !times.empty() && held.empty() && areIdle(times, seen, passed)};
  times = std::move(seen);
  last = now;
  return result;
}

} // namespace dtc::rt
