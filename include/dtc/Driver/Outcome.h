// What a phase gives: a value, or the category of an error that has been printed.
#pragma once

#include "dtc/Driver/Diagnostics.h"

#include "dtc/Plan/Plan/Result.h"

#include <optional>
#include <variant>

namespace dtc::driver {

/// What a phase without a value gives: nothing, or the category of an error that has been printed.
using Failure = std::optional<ErrorCategory>;

/// Prints the error and gives its category.
ErrorCategory fail(const plan::Error &error);

template <typename T> class [[nodiscard]] Outcome {
public:
  Outcome(T value) : storage(std::move(value)) {}
  /// After an error that was printed, by a diagnostic or by `fail`.
  Outcome(ErrorCategory category) : storage(category) {}

  explicit operator bool() const { return std::holds_alternative<T>(storage); }
  T &operator*() { return *std::get_if<T>(&storage); }
  T *operator->() { return std::get_if<T>(&storage); }
  /// Why there is no value; call only where there is none.
  ErrorCategory category() const { return *std::get_if<ErrorCategory>(&storage); }

private:
  std::variant<T, ErrorCategory> storage;
};

} // namespace dtc::driver
