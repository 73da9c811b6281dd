// How a call ended: well, or with an exit code and a one-line message.
//
//   Status load(const std::string &path) {
//     Result<MappedFile> file = MappedFile::open(path);
//     if (!file)
//       return file.status().in(path);          // "model.dtc: ..."
//     ...
//     return Status::ok();
//   }
#pragma once

#include "dtc-rt/PackageFormat.h"

#include <string>
#include <utility>
#include <variant>

namespace dtc::rt {

class [[nodiscard]] Status {
public:
  static Status ok() { return Status(); }
  Status(ExitCode code, std::string message) : exitCode(code), text(std::move(message)) {}

  bool isOk() const { return exitCode == ExitCode::Done; }
  ExitCode code() const { return exitCode; }
  const std::string &message() const { return text; }

  /// The same error, said to have happened in `place`.
  Status in(const std::string &place) && {
    if (!isOk())
      text = place + ": " + text;
    return std::move(*this);
  }

private:
  Status() = default;
  ExitCode exitCode = ExitCode::Done;
  std::string text;
};

/// An input (artifact, weights, data) was refused.
inline Status refused(std::string message) {
  return {ExitCode::InputRefused, std::move(message)};
}
/// Something failed at run time.
inline Status failed(std::string message) { return {ExitCode::Failed, std::move(message)}; }

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
