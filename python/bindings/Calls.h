// How Python calls the C API: without the interpreter's lock, with warnings and errors as Python's.
#pragma once

#include "dtc-c/Error.h"

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace dtc::python {

namespace nb = nanobind;

/// The arguments of a call of the C API, as it takes them.
class Strings {
public:
  explicit Strings(const std::vector<std::string> &strings);
  const char *const *data() const { return pointers.data(); }
  size_t size() const { return pointers.size(); }

private:
  std::vector<const char *> pointers;
};

/// Collects warnings while a call runs; they become Python's when it is over.
class Warnings {
public:
  static void handle(const char *text, void *warnings) {
    static_cast<Warnings *>(warnings)->texts.emplace_back(text);
  }
  void raise() const;

private:
  std::vector<std::string> texts;
};

/// Raises the error as an exception of dtc.errors; null is none. Takes the error.
void raise(DtcError *error);

/// Takes the text.
nb::str toStr(DtcText *text);

/// Runs a call that gives an error or null, without the lock.
template <typename Call> void callUnlocked(Call &&call) {
  DtcError *error;
  {
    nb::gil_scoped_release unlocked;
    error = call();
  }
  raise(error);
}

/// A call that gives a text.
template <typename Call> nb::str textUnlocked(Call &&call) {
  DtcText *text = nullptr;
  callUnlocked([&] { return call(&text); });
  return toStr(text);
}

} // namespace dtc::python
