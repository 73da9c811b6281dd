// Reads an archive back, with minizip's own reader.
#pragma once

#include <minizip/unzip.h>

#include <map>
#include <string>

struct ReadMember {
  std::string content;
  uint64_t offset = 0; ///< of the content in the file
};

struct ReadZip {
  std::map<std::string, ReadMember> members;
  std::string comment;
};

inline ReadZip readZip(const std::string &path) {
  ReadZip result;
  unzFile zip = unzOpen64(path.c_str());
  if (!zip)
    return result;
  char text[256] = {};
  unzGetGlobalComment(zip, text, sizeof text - 1);
  result.comment = text;
  for (int more = unzGoToFirstFile(zip); more == UNZ_OK; more = unzGoToNextFile(zip)) {
    unz_file_info64 info{};
    char name[256] = {};
    unzGetCurrentFileInfo64(zip, &info, name, sizeof name - 1, nullptr, 0, nullptr, 0);
    unzOpenCurrentFile(zip);
    ReadMember &member = result.members[name];
    member.offset = unzGetCurrentFileZStreamPos64(zip);
    member.content.resize(info.uncompressed_size);
    unzReadCurrentFile(zip, member.content.data(), member.content.size());
    unzCloseCurrentFile(zip); // checks the CRC
  }
  unzClose(zip);
  return result;
}
