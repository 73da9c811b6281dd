// A folder for the files of a tool that a compilation runs; gone with the object, or when a signal
// ends the process.
#pragma once

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <system_error>

namespace dtc::io {
class UnfinishedFile;
}

namespace dtc::target {

class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;

  /// Why there is none; false if there is.
  std::error_code error() const { return code; }
  /// The path of a file in it.
  std::string file(const llvm::Twine &name) const;

private:
  llvm::SmallString<128> path;
  std::error_code code;
  std::unique_ptr<io::UnfinishedFile> known;
};

llvm::Error writeFile(const std::string &path, llvm::StringRef bytes);

} // namespace dtc::target
