#include "dtc-rt/Files/LogFile.h"

#include "dtc-io/OutputPath.h"
#include "dtc-rt/Program/MappedFile.h"

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

Result<LogFile> LogFile::create(const std::string &asked, const Keep &keep) {
  LogFile file;
  if (Status status = file.open(io::endOfLinks(asked)); !status.isOk())
    return status;
  if (file.isRegular && keep) {
    Result<uint64_t> kept = lengthOf(file.path, keep);
    if (!kept)
      return kept.status();
    file.length = *kept;
  }
  return file;
}

Status LogFile::open(const std::string &asked) {
  path = asked;
  struct stat info{};
  // A run that ends without a line removes its file, perhaps after this one has opened it.
  for (bool isThere = false; !isThere;) {
    close();
    descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0644);
    isNew = descriptor >= 0;
    if (!isNew && errno == EEXIST)
      descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
    if (descriptor < 0 || ::fstat(descriptor, &info) != 0)
      return systemError(path, errno);
    isRegular = S_ISREG(info.st_mode);
    if (!isRegular)
      return Status::ok();
    // The lock ends with the process, however that ends. A file system without locks has none.
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return {ErrorCategory::Usage,
              path + ": another run writes this log; give each its own --log"};
    if (::fstat(descriptor, &info) != 0)
      return systemError(path, errno);
    isThere = info.st_nlink > 0;
  }
  return Status::ok();
}

void LogFile::close() {
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
}

LogFile::~LogFile() {
  if (descriptor < 0)
    return;
  removeIfEmpty();
  close();
}

void LogFile::removeIfEmpty() const {
  struct stat own{}, named{};
  if (isNew && isRegular && ::fstat(descriptor, &own) == 0 && own.st_size == 0 &&
      ::lstat(path.c_str(), &named) == 0 && named.st_ino == own.st_ino &&
      named.st_dev == own.st_dev)
    ::unlink(path.c_str());
}

Status LogFile::begin() {
  if (begun || !isRegular)
    return Status::ok();
  if (::ftruncate(descriptor, static_cast<off_t>(length)) != 0 ||
      ::lseek(descriptor, static_cast<off_t>(length), SEEK_SET) < 0)
    return systemError(path, errno);
  begun = true;
  return Status::ok();
}

Status LogFile::append(std::string_view line) {
  if (Status status = begin(); !status.isOk())
    return status;
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
