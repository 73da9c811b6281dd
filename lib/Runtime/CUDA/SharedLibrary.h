// A vendor's library that is found when the program runs, and its functions by name.
//
//   SymbolBinder symbols(*library);
//   symbols.bind(driver.cuInit, "cuInit");      null where the library lacks it
//   ...
//   return symbols.status();                    names the first that is missing
#pragma once

#include "dtc-rt/Status.h"

#include <span>
#include <string>

namespace dtc::rt::cuda {

/// Which library it is, and what to do where it is missing.
struct LibraryInfo {
  const char *title;
  std::span<const char *const> files; ///< names to try, in this order
  const char *remedy;
};

class SharedLibrary {
public:
  /// Looks in the folders of DTC_CUDA_LIBRARY_PATH first, between which there is a colon, then
  /// where the system looks.
  /// It is never closed again: CUDA's libraries don't take that well.
  static Result<SharedLibrary> open(const LibraryInfo &info);

  void *find(const char *symbol) const;
  /// Its path, or its name where the system found it.
  const std::string &path() const { return file; }
  /// That the library lacks a function.
  Status lacks(const char *symbol) const;

private:
  SharedLibrary(const LibraryInfo &info, std::string file, void *handle)
      : info(info), file(std::move(file)), handle(handle) {}
  LibraryInfo info;
  std::string file;
  void *handle;
};

class SymbolBinder {
public:
  explicit SymbolBinder(const SharedLibrary &library) : library(library) {}

  template <typename Function> void bind(Function *&function, const char *symbol) {
    bindIfThere(function, symbol);
    if (!function && !missing)
      missing = symbol;
  }
  template <typename Function> void bindIfThere(Function *&function, const char *symbol) {
    function = reinterpret_cast<Function *>(library.find(symbol));
  }
  Status status() const { return missing ? library.lacks(missing) : Status::ok(); }

private:
  const SharedLibrary &library;
  const char *missing = nullptr;
};

} // namespace dtc::rt::cuda
