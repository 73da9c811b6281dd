// A value or a one-line error, for code that knows neither LLVM nor exceptions.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace dtc::plan {

/// What went wrong, and which exit code it means (2 usage, 3 refused input, 4 no plan fits).
struct Error {
  std::string message;
  int exitCode = 3;
};

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : storage(std::move(value)) {}
  Result(Error error) : storage(std::move(error)) {}
  explicit operator bool() const { return std::holds_alternative<T>(storage); }
  T &operator*() { return std::get<T>(storage); }
  const T &operator*() const { return std::get<T>(storage); }
  T *operator->() { return &std::get<T>(storage); }
  const T *operator->() const { return &std::get<T>(storage); }
  const Error &error() const { return std::get<Error>(storage); }

private:
  std::variant<T, Error> storage;
};

} // namespace dtc::plan
