// The tensors of a model file, by name, beside the IR that describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtc {

/// Bytes of one tensor: inside a mapped file or owned by the store.
struct Weight {
  std::string dtype;          ///< as in safetensors: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape; ///< as in the file
  const std::byte *data = nullptr; ///< row-major, little endian; null: no data (weightless)
  uint64_t size = 0;               ///< bytes
  std::string file;                ///< where the data lies outside the model file; else empty
  uint64_t offset = 0;             ///< in `file`
  std::shared_ptr<const void> owner; ///< keeps `data` alive (mapping or buffer)
};

using WeightStore = std::map<std::string, Weight>;

} // namespace dtc
