#include "Archive.h"

#include "dtc-io/InputFile.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/serialization/import.h>

#include <unistd.h>

namespace dtc::torchscript {

/// Hands the file to LibTorch, and remembers what was read to which address: a stored member is
/// read straight into its storage.
class FileReader : public caffe2::serialize::ReadAdapterInterface {
public:
  explicit FileReader(io::InputFile file) : file(std::move(file)) {}

  size_t size() const override { return file.size(); }
  size_t read(uint64_t position, void *into, size_t count, const char *) const override {
    size_t done = 0;
    while (done < count) {
      const ssize_t got = ::pread(file.descriptor(), static_cast<char *>(into) + done, count - done,
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
  io::InputFile file;
};

static std::shared_ptr<FileReader> open(const std::string &path) {
  std::string why;
  auto file = io::InputFile::open(path, why);
  if (!file)
    throw Refusal("cannot be read (" + why + ")");
  return std::make_shared<FileReader>(std::move(*file));
}

Archive::Archive(const std::string &path) : reader(open(path)) {
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
