// The one way to open a file that somebody else wrote.
//
// Only regular files are opened: /dev/zero has no end, and a FIFO waits for ever. Text is read
// whole, up to a limit. Weights and data are mapped, because ranks read their parts of what doesn't
// fit into memory.
//
// Another program may truncate a file while it is mapped. Whoever then reads pages that are gone
// gets SIGBUS. Reading the file instead would cost its size in memory, and checking its size again
// wouldn't help. So a handler ends the process as any other truncated file does: with one line that
// names it (SuddenEnd.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace dtc::io {

/// An open regular file.
class InputFile {
public:
  /// Nothing where it can't be opened; `why` then says the reason: "not a regular file".
  static std::optional<InputFile> open(const std::string &path, std::string &why);
  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&) = delete;
  ~InputFile();

  int descriptor() const { return handle; }
  uint64_t size() const { return bytes; }

private:
  InputFile(int handle, uint64_t bytes) : handle(handle), bytes(bytes) {}
  int handle;
  uint64_t bytes;
};

/// All of a file, at most `limit` bytes.
std::optional<std::string> readFile(const std::string &path, uint64_t limit, std::string &why);

/// A read-only mapping; copies share it.
class MappedFile {
public:
  static std::optional<MappedFile> open(const std::string &path, std::string &why);

  const std::string &path() const;
  std::span<const char> bytes() const;

protected:
  struct State;
  explicit MappedFile(std::shared_ptr<const State> state) : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

} // namespace dtc::io
