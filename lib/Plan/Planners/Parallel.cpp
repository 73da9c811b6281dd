#include "Parallel.h"

#include <algorithm>
#include <atomic>
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
  for (size_t i = 1; i < std::min<size_t>(count, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace dtc::plan
