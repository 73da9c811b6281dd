#include "dtc/Plan/Solve/Parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace dtc::plan {

void inParallel(size_t count, const std::function<void(size_t)> &job) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < count;)
      job(i);
  };
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < std::min<size_t>(count, std::thread::hardware_concurrency()); ++i)
      threads.emplace_back(work);
  } catch (const std::system_error &) {
    // No more are to be had: those that there are do all.
  }
  work();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace dtc::plan
