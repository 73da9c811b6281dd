// Which nodes read which tensors of the file.
#pragma once

#include "Tensors.h"

#include "llvm/ADT/StringMap.h"

#include <map>

namespace dtc::import {

/// The module that a node belongs to, as PyTorch's exporters note it: m.wte, or /m/wte by the older
/// one. It is empty where nothing is noted.
std::string moduleOf(const onnx::NodeProto &node);

/// A node, and the number of its input at which it reads a tensor.
struct TensorUse {
  const onnx::NodeProto *node;
  int input;
};

/// The nodes that read each tensor, those between that only rename it or cast it to another float
/// left out. PyTorch's older exporter writes tensors of equal elements once, and an Identity for
/// each of the others:
///
///     h.1.ln.weight = Identity(h.0.ln.weight)
///     a = LayerNormalization(x, h.0.ln.weight)         of(h.0.ln.weight): both norms
///     b = LayerNormalization(a, h.1.ln.weight)         namesOf(h.0.ln.weight): h.1.ln.weight
class Readers {
public:
  explicit Readers(const Model &model);

  llvm::ArrayRef<TensorUse> of(const std::string &name) const;
  /// Further names that Identity nodes give the tensor.
  llvm::ArrayRef<std::string> namesOf(const std::string &name) const;

private:
  std::map<std::string, std::vector<TensorUse>> uses;
  std::map<std::string, std::vector<std::string>> names;
};

} // namespace dtc::import
