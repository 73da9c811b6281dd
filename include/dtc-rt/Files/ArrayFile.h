// Files of named arrays: safetensors and NumPy's .npz.
#pragma once

#include "dtc-rt/Program/DType.h"
#include "dtc-rt/Program/MappedFile.h"
#include "dtc-rt/Program/Shape.h"

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace dtc::rt {

/// A row-major array inside a file; `data` need not be aligned.
struct Array {
  DType dtype = DType::F32;
  Dims shape;
  const char *data = nullptr;
};

/// Arrays by name, and what keeps their bytes alive.
struct ArrayFile {
  std::string path;
  std::map<std::string, Array> arrays;
  std::shared_ptr<const void> owner;
  std::span<const char> bytes; ///< of the file, where the arrays lie in it as they are

  /// Reads either kind, told apart by content. Nothing beyond the headers is
  /// read unless it is compressed.
  static Result<ArrayFile> open(const std::string &path);
};

/// The two readers behind ArrayFile::open.
Result<ArrayFile> openSafetensors(MappedFile file);
Result<ArrayFile> openNpz(MappedFile file);

struct SafetensorsEntry {
  std::string name;
  DType dtype;
  Dims shape;
};

/// What a safetensors file begins with; offsets count from the start of the file.
struct SafetensorsHeader {
  std::string bytes;
  std::vector<uint64_t> offsets; ///< of the entries' elements
  uint64_t fileSize = 0;

  static Result<SafetensorsHeader> of(std::span<const SafetensorsEntry> entries);
};

/// A safetensors file that is written in place, by several threads if need be,
/// and appears under its name with `commit`.
class SafetensorsWriter {
public:
  using Entry = SafetensorsEntry;
  static Result<SafetensorsWriter> create(const std::string &path, std::vector<Entry> entries,
                                          Writers writers = Writers::Any);

  /// Where the elements of entry `index` go.
  char *data(size_t index) { return file.data() + offsets[index]; }
  Status commit() { return file.commit(); }

private:
  SafetensorsWriter(OutputFile file, std::vector<uint64_t> offsets)
      : file(std::move(file)), offsets(std::move(offsets)) {}
  OutputFile file;
  std::vector<uint64_t> offsets;
};

} // namespace dtc::rt
