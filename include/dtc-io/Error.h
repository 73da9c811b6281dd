// An error: a line for users, and what kind of thing went wrong. Compiler, planner and runtime
// share it, so that a caller can tell "no plan fits" from "this file is damaged" without the words.
//
//   return Error{"plan.yaml: line 3: unknown key 'tq'", ErrorCategory::InputRefused};
//
// Only a program that ends makes an exit code of a category (dtc-io/ExitCodes.h).
#pragma once

#include <cstdint>
#include <string>

namespace dtc {

enum class ErrorCategory : uint8_t {
  Failed,       ///< nobody's fault that is known: out of memory, a full disk, an internal error
  Usage,        ///< the request can't be meant: an unknown key, a product that can't be
  InputRefused, ///< a file can't be used: a model, a cluster, a plan, weights, an artifact
  NoFit,        ///< the request is sound, but no plan fits, or the artifact not on this machine
  RankLost,     ///< a rank ended, hangs, or disagrees with the others
  NotFinite,    ///< a loss or a gradient isn't finite, or experts have too few slots
  Saved,        ///< stopped by a signal, after what was trained had been saved
  Interrupted,  ///< by SIGINT, with nothing to save
  Terminated,   ///< by SIGTERM, with nothing to save
  Notified,     ///< by SIGUSR1, with nothing to save
};

struct Error {
  std::string message;
  ErrorCategory category = ErrorCategory::InputRefused;
};

} // namespace dtc
