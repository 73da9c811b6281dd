// A file mapped into memory: read whole, or written in place and then renamed.
#pragma once

#include "dtc-io/InputFile.h"
#include "dtc-io/SuddenEnd.h"
#include "dtc-rt/Status.h"

#include <memory>
#include <span>
#include <string>

namespace dtc::rt {

/// A file that is read where it lies; errors as the runtime has them.
class MappedFile : public io::MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);

private:
  explicit MappedFile(io::MappedFile file) : io::MappedFile(std::move(file)) {}
};

/// Puts the names in a folder onto the disk, so that a rename survives a crash.
void syncFolder(const std::string &folder);

/// How many processes may write a file at once: the last one's stays, or one alone may begin.
enum class Writers : uint8_t { Any, One };

/// A file that appears under its name complete or not at all. It is written under another name in
/// the same folder, then synced and renamed by `commit`. It is removed when dropped before. Its
/// bytes may be written by several threads.
class OutputFile {
public:
  static Result<OutputFile> create(const std::string &path, size_t size,
                                   Writers writers = Writers::Any);
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&) = delete;
  ~OutputFile();

  char *data() { return bytes; }
  size_t size() const { return length; }
  Status commit();

private:
  OutputFile() = default;
  void discard();
  Status open(Writers writers);
  std::string path; ///< at the end of its links
  std::string temporary;
  std::optional<io::UnfinishedFile> unfinished;
  int descriptor = -1;
  char *bytes = nullptr;
  size_t length = 0;
};

} // namespace dtc::rt
