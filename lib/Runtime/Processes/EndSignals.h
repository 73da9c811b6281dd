// Takes the signals that ask a run for its end: SIGINT, SIGTERM, SIGUSR1 and SIGHUP.
#pragma once

#include <csignal>
#include <iterator>

namespace dtc::rt {

/// While it lives, these signals call a handler. SIGHUP stays ignored where it is, as under nohup.
class EndSignals {
public:
  /// `flags` are those of sigaction.
  EndSignals(void (*handler)(int), int flags) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], nullptr, &old[i]);
      if (kSignals[i] != SIGHUP || old[i].sa_handler != SIG_IGN)
        ::sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~EndSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &old[i], nullptr);
  }
  /// Where a process was started with them blocked (`setIn`), they come once there are handlers.
  static void unblock() {
    sigset_t own;
    ::sigemptyset(&own);
    setIn(own);
    ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  static void setIn(sigset_t &signals) {
    for (int signal : kSignals)
      ::sigaddset(&signals, signal);
  }
  EndSignals(const EndSignals &) = delete;
  EndSignals &operator=(const EndSignals &) = delete;

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  struct sigaction old[std::size(kSignals)];
};

} // namespace dtc::rt
