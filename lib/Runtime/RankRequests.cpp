#include "RankRequests.h"

namespace dtc::rt {

RankRequests::Request RankRequests::next() {
  std::unique_lock lock(mutex);
  int64_t seen = asked;
  --busy;
  changed.notify_all();
  changed.wait(lock, [&] { return asked != seen || last == Request::End; });
  return last;
}

void RankRequests::leave(bool hasFailed) {
  std::lock_guard lock(mutex);
  --busy;
  ++gone;
  failed = failed || hasFailed;
  changed.notify_all();
}

bool RankRequests::ask(Request wanted) {
  {
    std::lock_guard lock(mutex);
    if (failed && wanted != Request::End)
      return false;
    last = wanted;
    busy = ranks - gone;
    ++asked;
    changed.notify_all();
  }
  return await();
}

bool RankRequests::await() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return busy == 0 || failed; });
  return !failed;
}

bool RankRequests::awaitEnd(std::chrono::seconds grace) {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, grace, [&] { return gone == ranks; });
}

} // namespace dtc::rt
