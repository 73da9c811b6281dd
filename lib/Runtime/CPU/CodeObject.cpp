#include "dtc-rt/CPU/CodeObject.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dtc::rt {

Result<CodeObject> CodeObject::load(std::span<const char> bytes) {
  int descriptor = ::memfd_create("dtc-kernels", MFD_CLOEXEC);
  if (descriptor < 0)
    return failed("cannot make a memory file for the kernels");
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t wrote = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) {
      ::close(descriptor);
      return failed("cannot copy the kernels into memory");
    }
    done += static_cast<size_t>(wrote);
  }
  // dlopen takes a path that it has loaded already for the same code. So the descriptor, whose
  // number is in the path, is kept as long as the code.
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    std::string error = ::dlerror();
    ::close(descriptor);
    return refused("not a loadable code object: " + error);
  }
  CodeObject object;
  object.handle.reset(handle, [descriptor](void *handle) {
    ::dlclose(handle);
    ::close(descriptor);
  });
  return object;
}

KernelFunction CodeObject::find(const std::string &symbol) const {
  return handle ? reinterpret_cast<KernelFunction>(::dlsym(handle.get(), symbol.c_str())) : nullptr;
}

} // namespace dtc::rt
