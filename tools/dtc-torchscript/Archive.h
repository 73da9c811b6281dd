// A module as LibTorch loads it, and where the bytes of its tensors lie in the file.
#pragma once

#include "Program.h"

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <memory>
#include <string>

namespace dtc::torchscript {

class FileReader;

class Archive {
public:
  explicit Archive(const std::string &path);
  ~Archive();

  torch::jit::Module module;

  /// The member of the archive that holds the storage; empty where none does.
  std::string memberOf(const at::Tensor &tensor) const;

private:
  std::shared_ptr<FileReader> reader;
  std::map<uint64_t, std::string> members; ///< by where their bytes begin
};

} // namespace dtc::torchscript
