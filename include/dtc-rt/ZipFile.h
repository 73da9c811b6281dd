// The members of a zip file; stored ones are read where they lie in the mapping.
#pragma once

#include "dtc-rt/MappedFile.h"

#include <cstdint>
#include <map>
#include <vector>

namespace dtc::rt {

struct ZipMember {
  bool stored = true;         ///< uncompressed
  uint64_t offset = 0;        ///< of a stored member's bytes in the file
  uint64_t compressedSize = 0, size = 0;
};

class ZipFile {
public:
  /// Refuses what is not a zip, members that repeat, overlap or reach out of the file,
  /// encryption.
  static Result<ZipFile> open(MappedFile file);

  const MappedFile &file() const { return mapping; }
  const std::map<std::string, ZipMember> &members() const { return entries; }
  const std::string &comment() const { return text; }
  /// The bytes of a stored member.
  std::span<const char> bytes(const ZipMember &member) const {
    return mapping.bytes().subspan(member.offset, member.size);
  }
  /// Decompresses a member and checks its CRC.
  Result<std::vector<char>> extract(const std::string &name) const;

private:
  explicit ZipFile(MappedFile mapping) : mapping(std::move(mapping)) {}
  MappedFile mapping;
  std::map<std::string, ZipMember> entries;
  std::string text;
};

} // namespace dtc::rt
