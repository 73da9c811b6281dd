#include "dtc/Plan/Plan/TextFile.h"

#include "dtc-io/InputFile.h"

namespace dtc::plan {

Result<std::string> readText(const std::string &path, const std::string &what) {
  constexpr uint64_t kMostBytes = 32 << 20; // plans of the largest models take a tenth of it
  std::string why;
  std::optional<std::string> text = io::readFile(path, kMostBytes, why);
  if (!text)
    return Error{path + ": cannot read the " + what + ": " + why};
  return std::move(*text);
}

} // namespace dtc::plan
