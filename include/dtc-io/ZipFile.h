// The members of a zip file; stored ones are read where they lie in the mapping.
#pragma once

#include "dtc-io/InputFile.h"

#include <cstdint>
#include <map>
#include <vector>

namespace dtc::io {

struct ZipMember {
  bool stored = true;  ///< uncompressed
  uint64_t offset = 0; ///< of a stored member's bytes in the file
  uint64_t compressedSize = 0, size = 0;
};

class ZipFile {
public:
  /// Refuses what is not a zip, members that repeat, overlap or reach out of the file,
  /// encryption.
  /// Then there is nothing, and `why` says what is wrong, beginning with the file's path.
  static std::optional<ZipFile> open(MappedFile file, std::string &why);

  const MappedFile &file() const { return mapping; }
  const std::map<std::string, ZipMember> &members() const { return entries; }
  const std::string &comment() const { return text; }
  /// The bytes of a stored member.
  std::span<const char> bytes(const ZipMember &member) const {
    return mapping.bytes().subspan(member.offset, member.size);
  }
  /// Decompresses a member and checks its CRC.
  std::optional<std::vector<char>> extract(const std::string &name, std::string &why) const;

private:
  explicit ZipFile(MappedFile mapping) : mapping(std::move(mapping)) {}
  MappedFile mapping;
  std::map<std::string, ZipMember> entries;
  std::string text;
};

} // namespace dtc::io
