#include "dtc-io/ZipFile.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace dtc::io {
namespace {

struct CloseZip {
  void operator()(void *zip) const { unzClose(zip); }
};
using ZipHandle = std::unique_ptr<void, CloseZip>;

/// A place in the mapped file. minizip reads through these functions, so that it sees the bytes
/// that were checked and opens nothing by itself.
struct Cursor {
  std::span<const char> bytes;
  uint64_t at = 0;
};

Cursor &cursorOf(void *stream) { return *static_cast<Cursor *>(stream); }
void *openCursor(void *file, const void *, int) {
  return new Cursor{static_cast<const MappedFile *>(file)->bytes()};
}
uLong readCursor(void *, void *stream, void *buffer, uLong size) {
  Cursor &cursor = cursorOf(stream);
  uint64_t count = std::min<uint64_t>(size, cursor.bytes.size() - cursor.at);
  std::copy_n(cursor.bytes.begin() + static_cast<ptrdiff_t>(cursor.at), count,
              static_cast<char *>(buffer));
  cursor.at += count;
  return count;
}
ZPOS64_T tellCursor(void *, void *stream) { return cursorOf(stream).at; }
long seekCursor(void *, void *stream, ZPOS64_T offset, int origin) {
  Cursor &cursor = cursorOf(stream);
  uint64_t from = origin == ZLIB_FILEFUNC_SEEK_CUR   ? cursor.at
                  : origin == ZLIB_FILEFUNC_SEEK_END ? cursor.bytes.size()
                                                     : 0;
  uint64_t to = from + offset; // wraps where it goes back
  if (to > cursor.bytes.size())
    return -1;
  cursor.at = to;
  return 0;
}
int closeCursor(void *, void *stream) {
  delete &cursorOf(stream);
  return 0;
}

ZipHandle openZip(const MappedFile &file) {
  zlib_filefunc64_def functions = {openCursor,
                                   readCursor,
                                   nullptr,
                                   tellCursor,
                                   seekCursor,
                                   closeCursor,
                                   [](void *, void *) { return 0; },
                                   const_cast<MappedFile *>(&file)};
  return ZipHandle(unzOpen2_64("", &functions));
}

/// The longest name a member may have.
constexpr size_t kMaxName = 4096;

/// minizip searches for the directory's end and forgives what is missing of it;
/// a whole file ends with the comment that it announces.
bool endsWithDirectory(std::span<const char> bytes, size_t commentSize) {
  constexpr size_t kEndRecord = 22;
  return bytes.size() >= kEndRecord + commentSize &&
         std::memcmp(bytes.data() + bytes.size() - kEndRecord - commentSize, "PK\5\6", 4) == 0;
}

/// What is wrong with the member that `zip` stands at; empty where nothing is.
std::string addMember(void *zip, const MappedFile &file,
                      std::map<std::string, ZipMember> &entries) {
  char name[kMaxName];
  unz_file_info64 info;
  if (unzGetCurrentFileInfo64(zip, &info, name, sizeof(name), nullptr, 0, nullptr, 0) != UNZ_OK)
    return "damaged directory of the zip";
  if (info.size_filename >= kMaxName)
    return "a member's name is too long";
  if (info.flag & 1)
    return std::string(name) + ": is encrypted";
  ZipMember member;
  member.stored = info.compression_method == 0;
  member.size = info.uncompressed_size;
  member.compressedSize = info.compressed_size;
  if (unzOpenCurrentFile(zip) != UNZ_OK)
    return std::string(name) + ": damaged header";
  member.offset = unzGetCurrentFileZStreamPos64(zip);
  unzCloseCurrentFile(zip);
  uint64_t fileSize = file.bytes().size();
  if (member.offset > fileSize || member.compressedSize > fileSize - member.offset ||
      (member.stored && member.size != member.compressedSize))
    return std::string(name) + ": reaches beyond the end of the file";
  if (!entries.emplace(name, member).second)
    return std::string(name) + ": is there twice";
  return {};
}

/// Members that share bytes could claim any size in a small file.
std::string describeOverlap(const std::map<std::string, ZipMember> &entries) {
  std::vector<std::pair<uint64_t, const std::pair<const std::string, ZipMember> *>> byOffset;
  for (const auto &entry : entries)
    if (entry.second.compressedSize > 0)
      byOffset.emplace_back(entry.second.offset, &entry);
  std::sort(byOffset.begin(), byOffset.end());
  for (size_t i = 1; i < byOffset.size(); ++i) {
    const auto &[offset, before] = byOffset[i - 1];
    if (byOffset[i].first - offset < before->second.compressedSize)
      return "members overlap: " + before->first + " and " + byOffset[i].second->first;
  }
  return {};
}

} // namespace

std::optional<ZipFile> ZipFile::open(MappedFile mapped, std::string &why) {
  const std::string path = mapped.path();
  auto refuse = [&](const std::string &text) {
    why = path + ": " + text;
    return std::nullopt;
  };
  ZipFile result(std::move(mapped));
  const MappedFile &file = result.mapping;
  ZipHandle zip = openZip(file);
  unz_global_info64 info;
  if (!zip || unzGetGlobalInfo64(zip.get(), &info) != UNZ_OK ||
      !endsWithDirectory(file.bytes(), info.size_comment))
    return refuse("truncated, or not a zip file");
  std::string comment(info.size_comment + 1, '\0');
  int length = unzGetGlobalComment(zip.get(), comment.data(), comment.size());
  comment.resize(length < 0 ? 0 : static_cast<size_t>(length));
  result.text = comment.c_str();
  int more = info.number_entry > 0 ? unzGoToFirstFile(zip.get()) : UNZ_END_OF_LIST_OF_FILE;
  for (; more == UNZ_OK; more = unzGoToNextFile(zip.get()))
    if (std::string wrong = addMember(zip.get(), file, result.entries); !wrong.empty())
      return refuse(wrong);
  if (more != UNZ_END_OF_LIST_OF_FILE)
    return refuse("damaged directory of the zip");
  if (std::string wrong = describeOverlap(result.entries); !wrong.empty())
    return refuse(wrong);
  return result;
}

std::optional<std::vector<char>> ZipFile::extract(const std::string &name, std::string &why) const {
  auto refuse = [&](const std::string &text) {
    why = mapping.path() + ": " + text;
    return std::nullopt;
  };
  auto found = entries.find(name);
  if (found == entries.end())
    return refuse("has no member: " + name);
  const ZipMember &member = found->second;
  // Deflate packs at most 1032 bytes into one; more is a lie about the size.
  if (member.size / 1032 > member.compressedSize + 1)
    return refuse(name + ": impossible size");
  ZipHandle zip = openZip(mapping);
  if (!zip || unzLocateFile(zip.get(), name.c_str(), 1) != UNZ_OK ||
      unzOpenCurrentFile(zip.get()) != UNZ_OK)
    return refuse(name + ": cannot be read");
  std::vector<char> bytes(member.size);
  size_t done = 0;
  while (done < bytes.size()) {
    unsigned step = static_cast<unsigned>(std::min<size_t>(bytes.size() - done, 1u << 30));
    int got = unzReadCurrentFile(zip.get(), bytes.data() + done, step);
    if (got <= 0)
      break;
    done += static_cast<size_t>(got);
  }
  if (done != bytes.size() || unzCloseCurrentFile(zip.get()) != UNZ_OK)
    return refuse(name + ": damaged");
  return bytes;
}

} // namespace dtc::io
