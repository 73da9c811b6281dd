#include "dtc-rt/Program/MappedFile.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Program/PartialFiles.h"

#include "dtc-io/OutputPath.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc::rt {
namespace {

Status systemError(const std::string &what, const std::string &path, ErrorCategory code) {
  return {code, path + ": " + what + ": " + std::strerror(errno)};
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

} // namespace

void syncFolder(const std::string &folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return;
  ::fsync(descriptor);
  ::close(descriptor);
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  std::string why;
  std::optional<io::MappedFile> file = io::MappedFile::open(path, why);
  if (!file)
    return refused(path + ": " + why);
  return MappedFile(std::move(*file));
}

/// Whoever looks for other writers holds the folder's lock until it can be seen itself. So of two
/// that begin at once the first one is let in. A file system without locks lets both in.
Status OutputFile::open(Writers writers) {
  const FolderLock lock(writers == Writers::One ? folderOf(path) : "");
  removeAbandonedPartials(path);
  if (writers == Writers::One && isBeingWritten(path))
    return {ErrorCategory::Usage, path + ": another run writes this file; give each its own"};
  temporary = path + kPartialSuffix + std::to_string(::getpid());
  unfinished.emplace(temporary); // before a signal can find it
  descriptor = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0)
    return systemError("cannot create", path, ErrorCategory::Failed);
  if (writers == Writers::One)
    ::flock(descriptor, LOCK_EX | LOCK_NB); // ends with the process, however that ends
  return Status::ok();
}

Result<OutputFile> OutputFile::create(const std::string &path, size_t size, Writers writers) {
  OutputFile file;
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return failed(path + ": cannot create: there is something else than a file");
  file.path = io::endOfLinks(path);
  file.length = size;
  if (Status status = file.open(writers); !status.isOk())
    return status;
  // Reserved in full: a disk that fills up later would be a crash.
  int error = size > 0 ? ::posix_fallocate(file.descriptor, 0, static_cast<off_t>(size)) : 0;
  if (error != 0) {
    errno = error;
    return systemError("cannot reserve " + std::to_string(size) + " bytes", path,
                       ErrorCategory::Failed);
  }
  if (size > 0) {
    void *data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
    if (data == MAP_FAILED)
      return systemError("cannot map", path, ErrorCategory::Failed);
    file.bytes = static_cast<char *>(data);
  }
  return file;
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : path(std::move(other.path)), temporary(std::move(other.temporary)),
      unfinished(std::move(other.unfinished)), descriptor(std::exchange(other.descriptor, -1)),
      bytes(std::exchange(other.bytes, nullptr)), length(other.length) {
  other.temporary.clear();
}

OutputFile::~OutputFile() {
  if (bytes)
    ::munmap(bytes, length);
  if (descriptor >= 0)
    ::close(descriptor);
  if (descriptor >= 0)
    discard();
}

void OutputFile::discard() {
  if (!temporary.empty())
    ::unlink(temporary.c_str());
  temporary.clear();
  unfinished.reset();
}

Status OutputFile::commit() {
  if (bytes && ::msync(bytes, length, MS_SYNC) != 0)
    return systemError("cannot write", path, ErrorCategory::Failed);
  if (::fsync(descriptor) != 0)
    return systemError("cannot sync", path, ErrorCategory::Failed);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return systemError("cannot rename to", path, ErrorCategory::Failed);
  temporary.clear();
  unfinished.reset();
  syncFolder(folderOf(path));
  return Status::ok();
}

} // namespace dtc::rt
