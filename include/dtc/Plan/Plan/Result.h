// A value or a one-line error, for code that knows neither LLVM nor exceptions.
#pragma once

#include "dtc-io/Error.h"

#include <concepts>
#include <string>
#include <utility>
#include <variant>

namespace dtc::plan {

using dtc::Error;

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
