// oneDNN writes to what it has asked for although it got none: to its own objects, and to the
// buffers it generates code in. libgomp ends the program with a line of its own, also while another
// thread ends it. Here such a request ends the program as any other does, with one line. The
// program's symbols come before those of the C library, which serve everybody else as ever.
#include "dtc-io/SuddenEnd.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// What glibc's own functions are called beside their usual names.
extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
}

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
  return endWhereNeeded(__libc_malloc(size), __builtin_return_address(0));
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) noexcept {
  return endWhereNeeded(__libc_calloc(count, size), __builtin_return_address(0));
}

/// Of no bytes it makes nothing, and frees the block.
__attribute__((visibility("default"))) void *realloc(void *block, size_t size) noexcept {
  void *made = __libc_realloc(block, size);
  return size == 0 ? made : endWhereNeeded(made, __builtin_return_address(0));
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size) noexcept {
  return endWhereNeeded(__libc_memalign(alignment, size), __builtin_return_address(0));
}

__attribute__((visibility("default"))) int posix_memalign(void **block, size_t alignment,
                                                          size_t size) noexcept {
  const int before = errno; // this function returns its error
  void *made = endWhereNeeded(::aligned_alloc(alignment, size), __builtin_return_address(0));
  const int error = made ? 0 : errno;
  errno = before;
  if (made)
    *block = made;
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
  static const auto create =
      reinterpret_cast<decltype(&::pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int error = create(thread, attributes, body, argument);
  if (error && needsIt(__builtin_return_address(0)))
    dtc::io::endSuddenly(dtc::ErrorCategory::Failed, "can't start a thread", std::strerror(error));
  return error;
}
}
