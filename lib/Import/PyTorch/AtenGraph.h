// A PyTorch program as its operators: what every reader of PyTorch's files fills.
//
// A value has a name. An argument of an operator is called as its schema calls it, and is left out
// where it has its default:
//
//   self = x; return F.gelu(x + 1)         add = aten.add.Tensor(self: x, other: 1)
//                                          gelu = aten.gelu.default(self: add)
//
// Regions of other control flow than straight lines don't exist here; readers inline or refuse
// them.
#pragma once

#include "dtc/Import/Build/FileTensor.h"
#include "dtc/Import/Build/Inputs.h"

#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace dtc::import {

/// PyTorch's numbers of element types, c10::ScalarType.
struct ScalarType {
  int64_t number;
};

/// A value by its name: a tensor, or a number that is computed from sizes.
struct ValueName {
  std::string name;
};

/// A memory format, a device, ...: nothing that changes what is computed.
struct Ignored {};

struct Argument;
using ArgumentList = std::vector<Argument>;

struct Argument {
  /// None is std::monostate.
  std::variant<std::monostate, ValueName, int64_t, double, bool, std::string, ScalarType, Ignored,
               ArgumentList>
      value;

  template <typename T> const T *as() const { return std::get_if<T>(&value); }
  bool isNone() const { return std::holds_alternative<std::monostate>(value); }
};

struct NamedArgument {
  std::string name;
  Argument value;
};

struct AtenNode {
  std::string op;     ///< "aten.add.Tensor"
  std::string source; ///< "model.py:12", of the user's program; may be empty
  std::string name;   ///< of the node
  std::vector<NamedArgument> arguments;
  std::vector<std::string> results; ///< names of values; empty where a result isn't used
  bool tracksGradients = true;      ///< false inside of torch.no_grad()

  /// The argument, which may be None; null where it is left out.
  const Argument *argument(llvm::StringRef called) const {
    for (const NamedArgument &each : arguments)
      if (each.name == called)
        return &each.value;
    return nullptr;
  }
};

/// A weight of the program, or a constant tensor.
struct AtenTensor {
  std::string value; ///< its name as a value
  FileTensor tensor;
  std::string tiedTo; ///< the first of its group where no storage says so (fake tensors); or empty
  bool isComplex = false; ///< with a last dimension for its two parts
};

struct AtenGraph {
  std::vector<AtenTensor> tensors;
  std::vector<FileInput> inputs; ///< named as values
  std::vector<AtenNode> nodes;   ///< in order of execution
  std::vector<std::string> outputs;
  std::map<std::string, std::string> bufferChanges; ///< by buffer: the value that replaces it
};

/// The MLIR type of PyTorch's number of an element type; null where there is none here.
mlir::Type elementType(mlir::MLIRContext *context, ScalarType type);

} // namespace dtc::import
