#include "Archive.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc::torchscript {

/// Hands the file to LibTorch, and remembers what was read to which address: a stored member is
/// read straight into its storage.
class FileReader : public caffe2::serialize::ReadAdapterInterface {
public:
  explicit FileReader(const std::string &path)
      : handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat about;
    if (handle < 0 || ::fstat(handle, &about) != 0 || !S_ISREG(about.st_mode))
      throw Refusal(std::string("cannot be read (") + std::strerror(errno) + ")");
    bytes = about.st_size;
  }
  ~FileReader() override { ::close(handle); }
  FileReader(const FileReader &) = delete;
  FileReader &operator=(const FileReader &) = delete;

  size_t size() const override { return bytes; }
  size_t read(uint64_t position, void *into, size_t count, const char *) const override {
    size_t done = 0;
    while (done < count) {
      const ssize_t got = ::pread(handle, static_cast<char *>(into) + done, count - done,
                                  static_cast<off_t>(position + done));
      if (got <= 0)
        break;
      done += got;
    }
    readFrom[into] = position;
    return done;
  }

  mutable std::map<const void *, uint64_t> readFrom;

private:
  int handle;
  size_t bytes = 0;
};

Archive::Archive(const std::string &path) : reader(std::make_shared<FileReader>(path)) {
  {
    caffe2::serialize::PyTorchStreamReader zip(reader);
    for (const std::string &name : zip.getAllRecords())
      if (zip.getRecordSize(name) > 0)
        members[zip.getRecordOffset(name)] = name;
  }
  reader->readFrom.clear();
  module = torch::jit::load(reader, c10::Device(c10::kCPU));
}

Archive::~Archive() = default;

std::string Archive::memberOf(const at::Tensor &tensor) const {
  auto read = reader->readFrom.find(tensor.storage().data());
  if (read == reader->readFrom.end())
    return "";
  auto member = members.find(read->second);
  return member == members.end() ? "" : member->second;
}

} // namespace dtc::torchscript
