// Writes a zip whose members are stored (not compressed) and aligned, so that
// they can be mapped from the file as they are.
#pragma once

#include "dtc-io/SuddenEnd.h"

#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtc::package {

using Bytes = std::span<const std::byte>;

/// Bytes that follow one another: a member may come from several places.
using Pieces = std::vector<Bytes>;

uint64_t sizeOf(const Pieces &pieces);

/// SHA-256 in lower-case hex.
std::string sha256(const Pieces &pieces);

/// Writes beside `path` and moves the file there in `commit`: at no time is
/// there a half-written file at `path`. Without `commit` nothing is left.
class ZipWriter {
public:
  static llvm::Expected<std::unique_ptr<ZipWriter>> create(const std::string &path);
  ~ZipWriter();
  ZipWriter(const ZipWriter &) = delete;
  ZipWriter &operator=(const ZipWriter &) = delete;

  /// Appends a member whose bytes start at a multiple of rt::kMemberAlignment.
  llvm::Error add(const std::string &name, const Pieces &pieces);

  /// Finishes with the archive's comment, syncs, and renames.
  llvm::Error commit(const std::string &comment);

private:
  struct File;
  explicit ZipWriter(std::string path);
  llvm::Error fail(const std::string &what) const;

  std::string path, temporary;
  std::optional<io::UnfinishedFile> unfinished;
  std::unique_ptr<File> file;
};

} // namespace dtc::package
