// The threads of one rank.
//
// They are the calling thread's libgomp team, the one that oneDNN computes with. So a rank has
// `threads` threads, not as many again for its own kernels. Make and use a team on the rank's
// thread; waiting members block if OMP_WAIT_POLICY is passive when the process starts (dtc-run sees
// to it).
#pragma once

#include <vector>

namespace dtc::rt {

class ThreadTeam {
public:
  /// Keeps the calling thread, and the members it will start, on `cpus` where
  /// that is not empty. As a set: oneDNN ends and starts members as it likes,
  /// and a new one inherits from the calling thread.
  explicit ThreadTeam(int threads, const std::vector<int> &cpus = {});

  int size() const { return threads; }

  /// Calls work(i) for all 0 <= i < members, which is at most size().
  template <typename Work> void run(int members, Work &&work) {
    if (members <= 1)
      return work(0);
    runErased(members, [](void *data, int i) { (*static_cast<Work *>(data))(i); }, &work);
  }

private:
  using Erased = void (*)(void *data, int member);
  void runErased(int members, Erased work, void *data);
  int threads;
};

/// The processors that this process may run on.
std::vector<int> availableCpus();

} // namespace dtc::rt
