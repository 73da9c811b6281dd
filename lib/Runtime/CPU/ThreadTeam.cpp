#include "dtc-rt/CPU/ThreadTeam.h"

#include <sched.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

// libgomp's interface to compiled parallel regions; declared by hand because
// clang's -fopenmp would bring in LLVM's OpenMP runtime beside it.
extern "C" {
void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void omp_set_num_threads(int threads);
void omp_set_dynamic(int dynamic);
}

namespace dtc::rt {
namespace {

struct Region {
  void (*work)(void *, int);
  void *data;
  int members;
};

// libgomp isn't built with ThreadSanitizer. It can't see that a team begins after what its caller
// did before, and that the caller goes on after the team. These two say so; elsewhere they are
// nothing.
void handOver(Region *region) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(region);
#endif
}
void takeOver(Region *region) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(region);
#endif
}

void enter(void *opaque) {
  auto *region = static_cast<Region *>(opaque);
  takeOver(region);
  // The system may give fewer threads than asked for.
  for (int i = omp_get_thread_num(); i < region->members; i += omp_get_num_threads())
    region->work(region->data, i);
  handOver(region);
}

} // namespace

ThreadTeam::ThreadTeam(int threads, const std::vector<int> &cpus) : threads(threads) {
  if (!cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus)
      CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set); // of the calling thread; best effort
  }
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

void ThreadTeam::runErased(int members, Erased work, void *data) {
  Region region{work, data, members};
  // Always the whole team: libgomp ends the threads that a smaller one leaves over.
  handOver(&region);
  GOMP_parallel(enter, &region, static_cast<unsigned>(threads), 0);
  takeOver(&region);
}

std::vector<int> availableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set))
      cpus.push_back(cpu);
  return cpus;
}

} // namespace dtc::rt
