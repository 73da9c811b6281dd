// The tensors of a module while it is walked. Each has a shape, a name in the program, and small
// ones that depend on no input their elements.
//
// Tensors are LibTorch's without data ("meta"), so that LibTorch itself says shapes, element types
// and which tensors share their elements. A change in place gives the shared elements a new name.
// Whoever looks at them afterwards takes its part again:
//
//   y = x[0]                               y = select(x, 0, 0)
//   y.add_(1)             becomes          y2 = add(y, 1)
//   return x                               x2 = cat([unsqueeze(y2, 0), slice(x, 0, 1, ...)])
#pragma once

#include "Archive.h"

#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

namespace dtc::torchscript {

/// An input whose type nobody gave is used as indices.
struct NeedsIntegers {
  std::string input;
};

/// An operator with its arguments.
struct Application {
  std::string target; ///< "aten.add.Tensor"
  std::string source, hint;
  std::vector<std::pair<c10::Argument, c10::IValue>> arguments;
  bool tracksGradients = true;
  size_t results = 1;
  bool isList = false;
};

/// The tensor is a result of an application to another one whose elements it shares.
struct View {
  std::shared_ptr<const Application> of;
  size_t self = 0, result = 0;   ///< which argument is the other tensor; which result this one is
  std::vector<int64_t> from, to; ///< sizes of both
  std::vector<int64_t> strides;  ///< of the other tensor
  int64_t offset = 0;            ///< where this one's elements begin among the other's
};

/// Elements that several tensors may share.
struct Elements {
  std::string current;           ///< the name of all of them now
  uint64_t version = 0;          ///< how often they were changed
  bool changedBlindly = false;   ///< elements that were known aren't any more
  std::string parameter, buffer; ///< the weight that they are
  std::string untypedInput;      ///< the input that they are, where nobody gave its type
};

struct Value {
  at::Tensor tensor;
  std::vector<int64_t> sizes, strides;
  std::shared_ptr<Elements> elements;
  std::string name;
  uint64_t version = 0;
  std::vector<View> views; ///< from all elements to this tensor
  at::Tensor known;        ///< undefined: the elements aren't known
};

class Values {
public:
  Values(const Archive &archive, Program &program);

  at::Tensor addInput(const std::string &name, const std::vector<int64_t> &sizes,
                      at::ScalarType type, bool isTyped);
  /// A tensor of the module, or a constant, as one without data; its own ones stay as they are.
  at::Tensor adopt(const at::Tensor &tensor);
  /// The same within lists, tuples and dictionaries.
  c10::IValue adopt(const c10::IValue &value);

  bool has(const at::Tensor &tensor) const;
  /// The elements; undefined where they depend on inputs or are many.
  at::Tensor known(const at::Tensor &tensor) const;
  bool isKnown(const at::Tensor &tensor) const { return known(tensor).defined(); }
  /// Whether its shape isn't what it was when it was made.
  bool isReshaped(const at::Tensor &tensor) const {
    return value(tensor).strides != tensor.strides().vec() ||
           value(tensor).sizes != tensor.sizes().vec();
  }
  std::string name(const at::Tensor &tensor);
  const Value &value(const at::Tensor &tensor) const;

  /// The results of an application, with their elements where these are known.
  void define(const std::shared_ptr<Application> &application,
              const std::vector<at::Tensor> &results, const std::vector<at::Tensor> &known);
  /// The application's result replaces the tensor's elements. `isKnown`: the known ones have been
  /// changed, too.
  void assign(const at::Tensor &self, const std::string &changed, bool isKnown,
              const Application &by);
  std::vector<std::string> emit(const Application &application, std::optional<size_t> self = {},
                                const std::string &selfName = "");
  /// Adds a call of aten and gives its result.
  std::string emit(const std::string &target, Json inputs, const Application &like);

  /// What the program does to buffers.
  void addBufferChanges();
  void setBuffer(const std::string &buffer, const at::Tensor &tensor);
  std::string bufferOf(const at::Tensor &stored) const;

private:
  Json argumentOf(const c10::IValue &value, const c10::TypePtr &type);
  Json listArgument(const c10::IValue &value, const c10::TypePtr &element);
  Value &insert(const at::Tensor &tensor, std::shared_ptr<Elements> elements,
                const std::string &name);
  std::vector<std::string> prefixes(const Value &value);
  std::string putBack(const View &view, const std::string &whole, const std::string &part,
                      const Application &by);
  std::string putSlice(const View &view, int64_t dim, int64_t begin, int64_t end,
                       const std::string &whole, const std::string &part, const Application &by);

  const Archive &archive;
  Program &program;
  std::unordered_map<const c10::TensorImpl *, Value> values;
  std::unordered_map<const c10::StorageImpl *, std::shared_ptr<Elements>> stored;
  struct Weight {
    std::string value, name;
    TensorKind kind;
  };
  std::unordered_map<const c10::TensorImpl *, Weight> weights; ///< of the module
  std::unordered_map<const c10::TensorImpl *, at::Tensor> adopted;
  std::vector<std::pair<std::string, std::shared_ptr<Elements>>> buffers;
  std::vector<at::Tensor> kept; ///< alive, so that no address is used twice
};

/// PyTorch's serialized number of an element type.
int64_t serializedType(at::ScalarType type);
Json metaOf(const at::Tensor &tensor);

/// Visits the tensors within a value.
void forEachTensor(const c10::IValue &value, const std::function<void(const at::Tensor &)> &visit);
/// The value with other tensors; lists are copied.
c10::IValue mapTensors(const c10::IValue &value,
                       const std::function<at::Tensor(const at::Tensor &)> &map);

/// Elements are computed while recording up to this many.
constexpr int64_t kMostKnown = 1 << 16;

} // namespace dtc::torchscript
