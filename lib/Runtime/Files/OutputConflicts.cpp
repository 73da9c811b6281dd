#include "dtc-rt/Files/OutputConflicts.h"

#include "dtc-io/OutputPath.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace dtc::rt {
namespace {

namespace fs = std::filesystem;

/// An output may be a link to a file that isn't there yet.
bool areSame(const std::string &first, const std::string &second) {
  std::error_code error;
  const std::string a = io::endOfLinks(first), b = io::endOfLinks(second);
  if (fs::exists(a, error) && fs::exists(b, error))
    return fs::equivalent(a, b, error) && !error;
  fs::path whole = fs::weakly_canonical(fs::absolute(a, error), error);
  return !error && whole == fs::weakly_canonical(fs::absolute(b, error), error) && !error;
}

bool isWrittenAsItIs(const std::string &path) {
  std::error_code error;
  fs::file_type type = fs::status(path, error).type();
  return type == fs::file_type::character || type == fs::file_type::fifo;
}

} // namespace

Status checkOutputConflicts(std::span<const NamedFile> inputs, std::span<const NamedFile> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile &output = outputs[i];
    if (output.path.empty() || isWrittenAsItIs(output.path))
      continue;
    for (const NamedFile &input : inputs)
      if (!input.path.empty() && areSame(input.path, output.path))
        return {ErrorCategory::Usage, output.path + ": " + output.name + " would write over " +
                                          input.name + "; give it another path"};
    for (const NamedFile &other : outputs.first(i))
      if (!other.path.empty() && areSame(other.path, output.path))
        return {ErrorCategory::Usage,
                output.path + ": " + other.name + " and " + output.name +
                    " would write the same file; give one of them another path"};
  }
  return Status::ok();
}

Status checkOutputFolders(std::span<const NamedFile> outputs) {
  for (const NamedFile &output : outputs) {
    const std::string &path = output.path;
    std::error_code error;
    if (path.empty() || isWrittenAsItIs(path))
      continue;
    if (fs::is_directory(path, error))
      return failed(path + ": cannot write: it is a folder");
    const fs::path folder = fs::path(io::endOfLinks(path)).parent_path();
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
      return failed(path + ": cannot write: " + std::strerror(errno));
  }
  return Status::ok();
}

} // namespace dtc::rt
