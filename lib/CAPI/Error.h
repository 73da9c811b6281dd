// The handles of dtc-c/Error.h, and how a call makes them.
#pragma once

#include "dtc-c/Error.h"
#include "dtc-rt/Status.h"
#include "dtc/Driver/Outcome.h"

#include <new>
#include <string>

struct DtcError {
  DtcCategory category = DTC_FAILED;
  std::string text;
  bool isUnsupported = false;
};

struct DtcText {
  std::string text;
};

namespace dtc::capi {

/// Takes what a call says: errors with their notes for its result, warnings for its caller.
class Report {
public:
  Report(DtcWarningHandler handler, void *context)
      : handler(handler), context(context),
        scope([this](driver::Severity severity, const std::string &line) { add(severity, line); }) {
  }
  /// Null where nothing failed.
  DtcError *errorOf(driver::Failure failure);

private:
  void add(driver::Severity severity, const std::string &line);
  DtcWarningHandler handler;
  void *context;
  std::string errors;
  bool isAboutError = false; ///< what notes are about
  bool isUnsupported = false;
  driver::DiagnosticScope scope;
};

DtcError *errorOf(const rt::Status &status);
inline DtcText *textOf(std::string text) { return new DtcText{std::move(text)}; }

/// Runs a call, which gives an error or null. No exception leaves the C API.
template <typename Call> DtcError *guarded(Call &&call) {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    return new DtcError{DTC_FAILED, "out of memory"};
  } catch (const std::exception &error) {
    return new DtcError{DTC_FAILED, error.what()};
  }
}

/// Runs a call of the driver, which gives a Failure.
template <typename Call>
DtcError *reported(Call &&call, DtcWarningHandler handler = nullptr, void *context = nullptr) {
  return guarded([&] {
    Report report(handler, context);
    return report.errorOf(call());
  });
}

/// Stores a text that the driver gives, or says why there is none.
inline driver::Failure store(driver::Outcome<std::string> outcome, DtcText **text) {
  if (!outcome)
    return outcome.category();
  *text = textOf(std::move(*outcome));
  return std::nullopt;
}

} // namespace dtc::capi
