#include "dtc/Plan/Plan/TextFile.h"

#include <fstream>
#include <sstream>

namespace dtc::plan {

std::optional<std::string> readText(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  // `<< rdbuf()` fails where there is nothing to copy.
  const bool isEmpty = file.peek() == std::ifstream::traits_type::eof() && file.eof();
  if (!isEmpty && (!file || !(text << file.rdbuf())))
    return std::nullopt;
  return text.str();
}

} // namespace dtc::plan
