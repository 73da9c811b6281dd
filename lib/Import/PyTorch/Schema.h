// The serialized schema of an exported program, from JSON to an AtenGraph without weights' bytes.
#pragma once

#include "AtenGraph.h"

#include "dtc-io/Json.h"
#include "dtc/Import/Build/Budget.h"

#include "mlir/IR/MLIRContext.h"

#include <map>
#include <memory>
#include <optional>

namespace dtc::import {

/// What the schema says of a tensor: sizes of symbolic dimensions are names.
struct TensorMeta {
  mlir::Type element; ///< null: none that is supported
  std::vector<FileDim> dims;
  std::vector<int64_t> strides; ///< empty where one is symbolic
  int64_t offset = 0;           ///< in elements, into the storage
  bool requiresGrad = false;
  bool isComplex = false; ///< `element` is of each part of a number
};

/// Where a tensor's storage lies in the archive.
struct Payload {
  std::string member;                             ///< the file's name in its folder
  std::shared_ptr<const std::vector<char>> bytes; ///< instead of a member
  bool pickled = false;
  TensorMeta meta;
};
using Payloads = std::map<std::string, Payload>;
using Ties = std::vector<std::vector<std::string>>; ///< names in state_dict of one tensor each

/// A weight or constant that the program names.
struct NamedTensor {
  std::string value, name; ///< its name in the graph, and in state_dict
  TensorKind kind;
};

struct Program {
  AtenGraph graph; ///< without its tensors
  std::vector<NamedTensor> tensors;
};

// Both return nothing where the text isn't what PyTorch writes; `why` then says what is wrong.

std::optional<Program> parseProgram(std::string_view text, mlir::MLIRContext *context,
                                    Budget &budget, std::string &why);
std::optional<Payloads> parsePayloads(std::string_view text, mlir::MLIRContext *context,
                                      std::string &why);

std::optional<Ties> parseTies(std::string_view text, std::string &why);

} // namespace dtc::import
