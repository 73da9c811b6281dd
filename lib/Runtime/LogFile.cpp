#include "dtc-rt/LogFile.h"

#include "dtc-rt/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc::rt {
namespace {

Status systemError(const std::string &path, int number) {
  return failed(path + ": cannot be written: " + std::strerror(number));
}

/// Zero, or the number of the error.
int writeAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR)
      return errno;
    if (count > 0)
      bytes.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

} // namespace

/// The bytes of the lines at the start of the file that are to be kept.
static Result<uint64_t> lengthOf(const std::string &path, const LogFile::Keep &keep) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.status();
  std::string_view text(file->bytes().data(), file->bytes().size());
  uint64_t length = 0;
  for (size_t end; (end = text.find('\n', length)) != text.npos; length = end + 1)
    if (!keep(text.substr(length, end - length)))
      break;
  return length;
}

Result<LogFile> LogFile::create(const std::string &path, const Keep &keep) {
  LogFile file;
  file.path = path;
  file.descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
  struct stat info;
  if (file.descriptor < 0 || ::fstat(file.descriptor, &info) != 0)
    return systemError(path, errno);
  file.isRegular = S_ISREG(info.st_mode);
  if (!file.isRegular)
    return file;
  // The lock ends with the process, however that ends. A file system without locks has none.
  if (::flock(file.descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Status(ExitCode::Usage, path + ": another run writes this log; give each its own --log");
  if (keep) {
    Result<uint64_t> kept = lengthOf(path, keep);
    if (!kept)
      return kept.status();
    file.length = *kept;
  }
  if (::ftruncate(file.descriptor, static_cast<off_t>(file.length)) != 0 ||
      ::lseek(file.descriptor, static_cast<off_t>(file.length), SEEK_SET) < 0)
    return systemError(path, errno);
  return file;
}

LogFile::~LogFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status LogFile::append(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  int error = writeAll(descriptor, bytes);
  if (error == 0) {
    length += bytes.size();
    return Status::ok();
  }
  if (isRegular && ::ftruncate(descriptor, static_cast<off_t>(length)) == 0)
    ::lseek(descriptor, static_cast<off_t>(length), SEEK_SET);
  return systemError(path, error);
}

} // namespace dtc::rt
