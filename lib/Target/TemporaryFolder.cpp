#include "dtc/Target/TemporaryFolder.h"

#include "dtc-io/SuddenEnd.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace dtc::target {

TemporaryFolder::TemporaryFolder() : code(llvm::sys::fs::createUniqueDirectory("dtc", path)) {
  if (!code)
    known = std::make_unique<io::UnfinishedFile>(std::string(path));
}

TemporaryFolder::~TemporaryFolder() {
  if (!code)
    llvm::sys::fs::remove_directories(path);
}

std::string TemporaryFolder::file(const llvm::Twine &name) const {
  llvm::SmallString<128> full(path);
  llvm::sys::path::append(full, name);
  return std::string(full);
}

llvm::Error writeFile(const std::string &path, llvm::StringRef bytes) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (code)
    return llvm::createStringError(code, "cannot write " + path);
  file << bytes;
  file.close();
  if (file.has_error())
    return llvm::createStringError(file.error(), "cannot write " + path);
  return llvm::Error::success();
}

} // namespace dtc::target
