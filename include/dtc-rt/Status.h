// How a call ended: well, or with an error of one line.
//
//   Status load(const std::string &path) {
//     Result<MappedFile> file = MappedFile::open(path);
//     if (!file)
//       return file.status().in(path);          // "model.dtc: ..."
//     ...
//     return Status::ok();
//   }
#pragma once

#include "dtc-io/Error.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dtc::rt {

class [[nodiscard]] Status {
public:
  static Status ok() { return Status(); }
  Status(Error error) : what(std::move(error)) {}
  Status(ErrorCategory category, std::string message) : what({std::move(message), category}) {}

  bool isOk() const { return !what; }
  /// What went wrong; call only where something did.
  const Error &error() const { return *what; }
  /// Empty where all is well, as is the category.
  const std::string &message() const {
    static const std::string none;
    return what ? what->message : none;
  }
  std::optional<ErrorCategory> category() const {
    return what ? std::optional(what->category) : std::nullopt;
  }

  /// The same error, said to have happened in `place`.
  Status in(const std::string &place) && {
    if (!isOk())
      what->message = place + ": " + what->message;
    return std::move(*this);
  }

private:
  Status() = default;
  std::optional<Error> what;
};

/// An input (artifact, weights, data) was refused.
inline Status refused(std::string message) {
  return {ErrorCategory::InputRefused, std::move(message)};
}
/// Something failed at run time.
inline Status failed(std::string message) { return {ErrorCategory::Failed, std::move(message)}; }

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : storage(std::move(value)) {}
  Result(Status error) : storage(std::move(error)) {}

  explicit operator bool() const { return std::holds_alternative<T>(storage); }
  T &operator*() { return *std::get_if<T>(&storage); }
  const T &operator*() const { return *std::get_if<T>(&storage); }
  T *operator->() { return std::get_if<T>(&storage); }
  const T *operator->() const { return std::get_if<T>(&storage); }
  /// The error; call only where there is one.
  Status &status() { return *std::get_if<Status>(&storage); }

private:
  std::variant<T, Status> storage;
};

} // namespace dtc::rt
