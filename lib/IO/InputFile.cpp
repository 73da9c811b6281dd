#include "dtc-io/InputFile.h"

#include "dtc-io/SuddenEnd.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc::io {
namespace {

/// What is mapped at present. Slots are used again and never freed: a signal handler walks them
/// while other threads map and unmap. The one it finds can't go away, because somebody is reading
/// in it.
struct Mapping {
  std::atomic<bool> taken{true};
  std::atomic<const char *> begin{nullptr};
  std::atomic<size_t> size{0};
  std::atomic<const char *> path{nullptr};
  Mapping *next = nullptr;
};

std::atomic<Mapping *> mappings{nullptr};
struct sigaction before;

void onMissingPage(int signal, siginfo_t *info, void *) {
  const char *address = static_cast<const char *>(info->si_addr);
  for (Mapping *mapping = mappings.load(); mapping; mapping = mapping->next) {
    const char *begin = mapping->begin.load();
    if (begin && address >= begin && address < begin + mapping->size.load())
      endSuddenly(ErrorCategory::InputRefused, mapping->path.load(),
                  "was truncated while it was read");
  }
  ::sigaction(signal, &before, nullptr); // not ours: the same access again ends as it would have
  if (info->si_code <= 0)                // nor is what a process sends, which doesn't come again
    ::raise(signal);
}

void handleMissingPages() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = onMissingPage;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, &before);
  });
}

Mapping *note(const char *begin, size_t size, const char *path) {
  handleMissingPages();
  Mapping *mapping = mappings.load();
  for (; mapping; mapping = mapping->next)
    if (bool taken = false; mapping->taken.compare_exchange_strong(taken, true))
      break;
  if (!mapping) {
    mapping = new Mapping;
    mapping->next = mappings.load();
    while (!mappings.compare_exchange_weak(mapping->next, mapping)) {
    }
  }
  mapping->path = path;
  mapping->size = size;
  mapping->begin = begin;
  return mapping;
}

std::string systemError(const char *what) {
  return std::string(what) + ": " + std::strerror(errno);
}

} // namespace

std::optional<InputFile> InputFile::open(const std::string &path, std::string &why) {
  // Without O_NONBLOCK a FIFO would wait for a writer before it can be seen to be one.
  int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info;
  if (handle < 0 && ::stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) {
    why = "not a regular file";
    return std::nullopt;
  }
  if (handle < 0) {
    why = systemError("cannot open");
    return std::nullopt;
  }
  if (::fstat(handle, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(handle);
    why = "not a regular file";
    return std::nullopt;
  }
  return InputFile(handle, static_cast<uint64_t>(info.st_size));
}

InputFile::InputFile(InputFile &&other) noexcept
    : handle(std::exchange(other.handle, -1)), bytes(other.bytes) {}

InputFile::~InputFile() {
  if (handle >= 0)
    ::close(handle);
}

std::optional<std::string> readFile(const std::string &path, uint64_t limit, std::string &why) {
  std::optional<InputFile> file = InputFile::open(path, why);
  if (!file)
    return std::nullopt;
  if (file->size() > limit) {
    why = "has more than " + std::to_string(limit) + " bytes: " + std::to_string(file->size());
    return std::nullopt;
  }
  std::string text(file->size(), '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t got = ::read(file->descriptor(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      why = systemError("cannot read");
      return std::nullopt;
    }
    if (got == 0)
      break; // it became shorter: what there was is what is read
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

struct MappedFile::State {
  std::string path;
  const char *data = nullptr;
  size_t size = 0;
  Mapping *noted = nullptr;

  ~State() {
    if (!data)
      return;
    noted->begin = nullptr;
    ::munmap(const_cast<char *>(data), size);
    noted->taken = false;
  }
};

std::optional<MappedFile> MappedFile::open(const std::string &path, std::string &why) {
  std::optional<InputFile> file = InputFile::open(path, why);
  if (!file)
    return std::nullopt;
  auto state = std::make_shared<State>();
  state->path = path;
  if (file->size() > 0) {
    void *data = ::mmap(nullptr, file->size(), PROT_READ, MAP_PRIVATE, file->descriptor(), 0);
    if (data == MAP_FAILED) {
      why = systemError("cannot map");
      return std::nullopt;
    }
    state->data = static_cast<const char *>(data);
    state->size = file->size();
    state->noted = note(state->data, state->size, state->path.c_str());
  }
  return MappedFile(std::move(state));
}

const std::string &MappedFile::path() const { return state->path; }

std::span<const char> MappedFile::bytes() const { return {state->data, state->size}; }

} // namespace dtc::io
