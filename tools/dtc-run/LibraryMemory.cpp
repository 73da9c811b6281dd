// oneDNN writes to what it has asked for although it got none: to its own objects, and to the
// buffers it generates code in. libgomp ends the program with a line of its own, also while another
// thread ends it. Here such a request ends the program as any other does, with one line. The
// program's symbols come before those of the C library, which serve everybody else as ever.
#include "dtc-io/SuddenEnd.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

/// What would be called without this file: the C library's function, or that of an allocator which
/// is loaded before it. A block that one has made the other can't free.
template <typename Function> class Next {
public:
  explicit constexpr Next(const char *name) : name(name) {}
  template <typename... Arguments> auto operator()(Arguments... arguments) {
    auto known = found.load(std::memory_order_relaxed);
    if (!known)
      found = known = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
    return known(arguments...);
  }

private:
  const char *name;
  std::atomic<Function> found{nullptr};
};

// Libraries ask for memory before any of the program's constructors.
constinit Next<decltype(&::malloc)> nextMalloc("malloc");
constinit Next<decltype(&::calloc)> nextCalloc("calloc");
constinit Next<decltype(&::realloc)> nextRealloc("realloc");
constinit Next<decltype(&::memalign)> nextMemalign("memalign");
constinit Next<decltype(&::posix_memalign)> nextPosixMemalign("posix_memalign");
constinit Next<decltype(&::pthread_create)> nextPthreadCreate("pthread_create");

} // namespace

/// Whether the caller is of a library that can't go on without what it asks for.
static bool needsIt(void *caller) {
  Dl_info object;
  if (!::dladdr(caller, &object) || !object.dli_fname)
    return false;
  const char *folderEnd = std::strrchr(object.dli_fname, '/');
  const char *file = folderEnd ? folderEnd + 1 : object.dli_fname;
  return std::strstr(file, "libdnnl") == file || std::strstr(file, "libgomp") == file;
}

/// `made`, unless it is nothing and the caller needs it.
static void *endWhereNeeded(void *made, void *caller) {
  if (!made && needsIt(caller))
    dtc::io::endSuddenly(dtc::ErrorCategory::Failed, "", "out of memory");
  return made;
}

extern "C" {

__attribute__((visibility("default"))) void *malloc(size_t size) noexcept {
  return endWhereNeeded(nextMalloc(size), __builtin_return_address(0));
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) noexcept {
  return endWhereNeeded(nextCalloc(count, size), __builtin_return_address(0));
}

/// Of no bytes it makes nothing, and frees the block.
__attribute__((visibility("default"))) void *realloc(void *block, size_t size) noexcept {
  void *made = nextRealloc(block, size);
  return size == 0 ? made : endWhereNeeded(made, __builtin_return_address(0));
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size) noexcept {
  return endWhereNeeded(nextMemalign(alignment, size), __builtin_return_address(0));
}

__attribute__((visibility("default"))) int posix_memalign(void **block, size_t alignment,
                                                          size_t size) noexcept {
  const int error = nextPosixMemalign(block, alignment, size);
  if (error)
    endWhereNeeded(nullptr, __builtin_return_address(0));
  return error;
}

__attribute__((visibility("default"))) void *mmap(void *address, size_t size, int protection,
                                                  int flags, int file, off_t offset) noexcept {
  long made = ::syscall(SYS_mmap, address, size, protection, flags, file, offset);
  if (made == -1)
    endWhereNeeded(nullptr, __builtin_return_address(0));
  return reinterpret_cast<void *>(made);
}

/// A thread takes memory for its stack.
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*body)(void *),
                                                          void *argument) noexcept {
  const int error = nextPthreadCreate(thread, attributes, body, argument);
  if (error && needsIt(__builtin_return_address(0)))
    dtc::io::endSuddenly(dtc::ErrorCategory::Failed, "can't start a thread", std::strerror(error));
  return error;
}
}
