// What a phase gives: a value, or the exit code of an error that has been printed.
#pragma once

#include "dtc/Driver/Diagnostics.h"

#include "dtc-rt/PackageFormat.h"
#include "dtc/Plan/Plan/Result.h"

#include <variant>

namespace dtc::driver {

using rt::ExitCode;

/// Prints the error and says with which exit code the command ends.
ExitCode fail(const plan::Error &error);

template <typename T> class [[nodiscard]] Outcome {
public:
  Outcome(T value) : storage(std::move(value)) {}
  /// After an error that was printed, by a diagnostic or by `fail`.
  Outcome(ExitCode code) : storage(code) {}

  explicit operator bool() const { return std::holds_alternative<T>(storage); }
  T &operator*() { return *std::get_if<T>(&storage); }
  T *operator->() { return std::get_if<T>(&storage); }
  /// Why there is no value; Done where there is one.
  ExitCode code() const {
    const ExitCode *code = std::get_if<ExitCode>(&storage);
    return code ? *code : ExitCode::Done;
  }

private:
  std::variant<T, ExitCode> storage;
};

} // namespace dtc::driver
