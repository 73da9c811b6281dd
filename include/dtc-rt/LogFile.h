// A file of lines that other programs follow while it grows.
#pragma once

#include "dtc-rt/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace dtc::rt {

/// Each line is in the file as a whole or not at all, and no other run writes the file as long as
/// the object lives. What is no regular file (a pipe, a terminal) is written as it is.
class LogFile {
public:
  /// Whether a line that is there stays.
  using Keep = std::function<bool(std::string_view line)>;

  /// Cuts the file behind the first lines, as long as they are to be kept; without `keep` it is
  /// emptied. Refused with ExitCode::Usage while another run writes it.
  static Result<LogFile> create(const std::string &path, const Keep &keep = {});
  LogFile(LogFile &&other) noexcept
      : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)),
        isRegular(other.isRegular), length(other.length) {}
  LogFile &operator=(LogFile &&) = delete;
  ~LogFile();

  /// Adds the line and a line break. A line that could be written in part alone (the disk is full)
  /// is taken back, and the next one may be tried.
  Status append(std::string_view line);

private:
  LogFile() = default;

  std::string path;
  int descriptor = -1;
  bool isRegular = false;
  uint64_t length = 0; ///< of the lines that are whole, in bytes
};

} // namespace dtc::rt
