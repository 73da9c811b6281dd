// A value or a one-line error, for code that knows neither LLVM nor exceptions.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace dtc::plan {

/// What kind of thing went wrong. The command line gives each its exit code
/// (lib/Driver/ExitCodes.h).
enum class ErrorCategory : uint8_t {
  Failed,       ///< nobody's fault that is known: out of memory, an internal error
  Usage,        ///< the request can't be meant: an unknown key, a product that can't be
  InputRefused, ///< a file can't be used: a model, a cluster, a plan, weights
  NoPlan,       ///< the request is sound, but no plan answers it
};

struct Error {
  std::string message;
  ErrorCategory category = ErrorCategory::InputRefused;
};

/// `E` is what tells the failure: an Error, or a type that carries its facts.
template <typename T, typename E = Error> class [[nodiscard]] Result {
public:
  Result(T value) : storage(std::move(value)) {}
  Result(E error) : storage(std::move(error)) {}
  /// A plain error, where failures have facts beside it.
  template <std::same_as<Error> Plain>
    requires(!std::same_as<E, Error>)
  Result(Plain error) : storage(E(std::move(error))) {}

  explicit operator bool() const { return std::holds_alternative<T>(storage); }
  T &operator*() { return std::get<T>(storage); }
  const T &operator*() const { return std::get<T>(storage); }
  T *operator->() { return &std::get<T>(storage); }
  const T *operator->() const { return &std::get<T>(storage); }
  const E &error() const { return std::get<E>(storage); }

private:
  std::variant<T, E> storage;
};

} // namespace dtc::plan
