// What the fuzzers share: an input as a file, and what they are told on their command lines.
//
// libFuzzer leaves flags that begin with two dashes to its targets: `--kind=npz` says how the bytes
// are read.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace dtc::fuzz {

/// The value of `--NAME=VALUE`; ends the program where it is missing.
inline std::string flag(int argc, char **argv, const std::string &name) {
  const std::string prefix = "--" + name + "=";
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], prefix.c_str(), prefix.size()) == 0)
      return argv[i] + prefix.size();
  std::fprintf(stderr, "the fuzzer needs --%s=...\n", name.c_str());
  std::exit(2);
}

/// The words of a command line, each on a line of its own. Like a shell's they have no zeros.
inline std::vector<std::string> wordsOf(const uint8_t *data, size_t size) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < size; ++i)
    if (data[i] == '\n')
      words.emplace_back();
    else if (data[i] != 0)
      words.back() += static_cast<char>(data[i]);
  return words;
}

/// Bytes under a path, in memory.
class InputPath {
public:
  InputPath(const uint8_t *data, size_t size) : descriptor(::memfd_create("input", 0)) {
    for (size_t done = 0; done < size;) {
      ssize_t count = ::write(descriptor, data + done, size - done);
      if (count <= 0)
        std::abort();
      done += static_cast<size_t>(count);
    }
  }
  ~InputPath() { ::close(descriptor); }
  InputPath(const InputPath &) = delete;
  InputPath &operator=(const InputPath &) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor); }

private:
  int descriptor;
};

} // namespace dtc::fuzz
