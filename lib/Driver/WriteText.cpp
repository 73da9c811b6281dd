#include "dtc/Driver/WriteText.h"

#include "dtc-rt/Program/MappedFile.h"

#include <cstring>
#include <filesystem>
#include <fstream>

namespace dtc::driver {

static rt::Status write(const std::string &path, const std::string &text) {
  std::error_code error;
  auto kind = std::filesystem::status(path, error).type();
  using Kind = std::filesystem::file_type;
  if (kind == Kind::character || kind == Kind::fifo) {
    std::ofstream stream(path, std::ios::binary);
    stream << text << std::flush;
    return stream ? rt::Status::ok() : rt::failed(path + ": cannot write");
  }
  auto file = rt::OutputFile::create(path, text.size());
  if (!file)
    return file.status();
  if (!text.empty())
    std::memcpy(file->data(), text.data(), text.size());
  return file->commit();
}

Failure writeText(const std::string &path, const std::string &text) {
  rt::Status status = write(path, text);
  if (status.isOk())
    return std::nullopt;
  return fail(status.error());
}

} // namespace dtc::driver
