#include "RankRequests.h"

namespace dtc::rt {

RankRequests::Kind RankRequests::next() {
  std::unique_lock lock(mutex);
  int64_t seen = asked;
  --busy;
  changed.notify_all();
  changed.wait(lock, [&] { return asked != seen || kind == Kind::End; });
  return kind;
}

void RankRequests::leave(bool hasFailed) {
  std::lock_guard lock(mutex);
  --busy;
  ++gone;
  failed = failed || hasFailed;
  changed.notify_all();
}

bool RankRequests::ask(Kind wanted) {
  {
    std::lock_guard lock(mutex);
    if (failed && wanted != Kind::End)
      return false;
    kind = wanted;
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
