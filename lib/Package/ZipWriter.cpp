#include "dtc/Package/ZipWriter.h"

#include "dtc-rt/Program/PackageFormat.h"

#include <minizip/zip.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace dtc::package {
namespace {

constexpr size_t kChunk = size_t{1} << 26; // minizip's lengths are 32 bits wide
constexpr uint64_t kLocalHeader = 30;
constexpr uint64_t kZip64Extra = 20;
constexpr uint16_t kPaddingId = 0xD935; // the extra field that zipalign pads with
constexpr uint32_t kEpoch = (1 << 21) | (1 << 16); // 1980-01-01: the same input, the same file

/// Extra field that moves the data, whose header would otherwise end at `end`,
/// to the next aligned offset.
std::vector<char> paddingFor(uint64_t end) {
  constexpr uint64_t kFieldHeader = 4, alignment = rt::kMemberAlignment;
  uint64_t padding = (alignment - (end + kFieldHeader) % alignment) % alignment;
  std::vector<char> field(kFieldHeader + padding, 0);
  field[0] = static_cast<char>(kPaddingId & 0xff);
  field[1] = static_cast<char>(kPaddingId >> 8);
  field[2] = static_cast<char>(padding);
  return field;
}

int syncPath(const std::string &path, int flags) {
  int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0)
    return -1;
  int result = ::fsync(descriptor);
  ::close(descriptor);
  return result;
}

} // namespace

uint64_t sizeOf(const Pieces &pieces) {
  uint64_t size = 0;
  for (Bytes piece : pieces)
    size += piece.size();
  return size;
}

std::string sha256(const Pieces &pieces) {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (Bytes piece : pieces)
    EVP_DigestUpdate(context.get(), piece.data(), piece.size());
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  std::string hex;
  for (unsigned i = 0; i < length; ++i) {
    constexpr const char *kDigits = "0123456789abcdef";
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

/// The open archive. minizip reads and writes through functions that we give
/// it, because it does not tell its position in the file otherwise.
struct ZipWriter::File {
  std::FILE *stream = nullptr;
  zipFile zip = nullptr;

  ~File() {
    if (zip)
      zipClose(zip, nullptr);
    if (stream)
      std::fclose(stream);
  }
  uint64_t position() const { return static_cast<uint64_t>(::ftello(stream)); }
};

namespace {

std::FILE *streamOf(void *stream) { return static_cast<std::FILE *>(stream); }
void *openStream(void *opaque, const void *, int) { return opaque; }
uLong readStream(void *, void *stream, void *buffer, uLong size) {
  return std::fread(buffer, 1, size, streamOf(stream));
}
uLong writeStream(void *, void *stream, const void *buffer, uLong size) {
  return std::fwrite(buffer, 1, size, streamOf(stream));
}
ZPOS64_T tellStream(void *, void *stream) {
  return static_cast<ZPOS64_T>(::ftello(streamOf(stream)));
}
long seekStream(void *, void *stream, ZPOS64_T offset, int origin) {
  return ::fseeko(streamOf(stream), static_cast<off_t>(offset), origin);
}
int closeStream(void *, void *) { return 0; } // File closes it
int errorOf(void *, void *stream) { return std::ferror(streamOf(stream)); }

} // namespace

ZipWriter::ZipWriter(std::string path)
    : path(std::move(path)),
      temporary(this->path + rt::kPartialSuffix + std::to_string(::getpid())),
      file(std::make_unique<File>()) {}

ZipWriter::~ZipWriter() {
  if (!file)
    return;
  file.reset();
  ::unlink(temporary.c_str());
}

llvm::Error ZipWriter::fail(const std::string &what) const {
  return llvm::createStringError(std::error_code(errno ? errno : EIO, std::generic_category()),
                                 "cannot write " + path + ": " + what + ": " +
                                     std::strerror(errno ? errno : EIO));
}

llvm::Expected<std::unique_ptr<ZipWriter>> ZipWriter::create(const std::string &path) {
  errno = 0;
  std::unique_ptr<ZipWriter> writer(new ZipWriter(path));
  File &file = *writer->file;
  std::error_code ignored;
  auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    writer->file.reset();
    return llvm::createStringError("cannot write " + path +
                                   ": there is something else than a file");
  }
  writer->unfinished.emplace(writer->temporary); // before a signal can find it
  file.stream = std::fopen(writer->temporary.c_str(), "w+bx");
  if (!file.stream) {
    writer->unfinished.reset();
    llvm::Error error = writer->fail("open");
    writer->file.reset(); // whatever is there is not ours to remove
    return std::move(error);
  }
  zlib_filefunc64_def functions = {openStream, readStream,  writeStream, tellStream,
                                   seekStream, closeStream, errorOf,     file.stream};
  file.zip = zipOpen2_64("", APPEND_STATUS_CREATE, nullptr, &functions);
  if (!file.zip)
    return writer->fail("zip");
  return writer;
}

llvm::Error ZipWriter::add(const std::string &name, const Pieces &pieces) {
  errno = 0;
  bool large = sizeOf(pieces) >= UINT32_MAX;
  std::vector<char> padding =
      paddingFor(file->position() + kLocalHeader + name.size() + (large ? kZip64Extra : 0));
  zip_fileinfo info{};
  info.dosDate = kEpoch;
  if (zipOpenNewFileInZip4_64(file->zip, name.c_str(), &info, padding.data(),
                              static_cast<uInt>(padding.size()), nullptr, 0, nullptr, 0, 0, 0, 0,
                              0, 0, nullptr, 0, 0, 0, large) != ZIP_OK)
    return fail(name);
  if (file->position() % rt::kMemberAlignment != 0)
    return llvm::createStringError("cannot write " + path + ": " + name + " is not aligned");
  for (Bytes piece : pieces) {
    for (size_t done = 0; done < piece.size(); done += kChunk) {
      Bytes chunk = piece.subspan(done, std::min(kChunk, piece.size() - done));
      if (zipWriteInFileInZip(file->zip, chunk.data(), static_cast<unsigned>(chunk.size())) !=
          ZIP_OK)
        return fail(name);
    }
  }
  if (zipCloseFileInZip(file->zip) != ZIP_OK)
    return fail(name);
  return llvm::Error::success();
}

llvm::Error ZipWriter::commit(const std::string &comment) {
  errno = 0;
  if (zipClose(std::exchange(file->zip, nullptr), comment.c_str()) != ZIP_OK)
    return fail("finish");
  if (std::fflush(file->stream) != 0 || ::fsync(::fileno(file->stream)) != 0)
    return fail("sync");
  if (std::fclose(std::exchange(file->stream, nullptr)) != 0)
    return fail("close");
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return fail("rename");
  unfinished.reset();
  file.reset();
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (syncPath(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY) != 0)
    return fail("sync folder");
  return llvm::Error::success();
}

} // namespace dtc::package
