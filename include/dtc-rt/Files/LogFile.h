// A file of lines that other programs follow while it grows.
#pragma once

#include "dtc-rt/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace dtc::rt {

/// Each line is in the file as a whole or not at all. No other run writes the file as long as the
/// object lives. What is no regular file (a pipe, a terminal) is written as it is.
class LogFile {
public:
  /// Whether a line that is there stays.
  using Keep = std::function<bool(std::string_view line)>;

  /// Keeps the first lines, as long as `keep` says so; without `keep` none. The others are there
  /// until the first line is added, so that a run which ends before it loses nothing. Refused with
  /// ErrorCategory::Usage while another run writes the file.
  static Result<LogFile> create(const std::string &path, const Keep &keep = {});
  LogFile(LogFile &&other) noexcept
      : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)),
        isRegular(other.isRegular), isNew(other.isNew), begun(other.begun), length(other.length) {}
  LogFile &operator=(LogFile &&) = delete;
  /// A file that wasn't there before and has no line is removed.
  ~LogFile();

  /// Adds the line and a line break. A line that could be written in part alone (the disk is full)
  /// is taken back, and the next one may be tried.
  Status append(std::string_view line);
  /// Cuts the lines that aren't kept, where no line has done so.
  Status begin();
  /// For a process that ends without destructors.
  void removeIfEmpty() const;

private:
  LogFile() = default;
  Status open(const std::string &path);
  void close();

  std::string path;
  int descriptor = -1;
  bool isRegular = false;
  bool isNew = false;  ///< made by this object
  bool begun = false;  ///< holds the lines that are kept, and no others
  uint64_t length = 0; ///< of the lines that are whole, in bytes
};

} // namespace dtc::rt
