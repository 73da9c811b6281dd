// What is recorded of a module: calls of ATen operators, as plain data.
//
// It is written in the form of torch.export's programs (torch/_export/serde/schema.py), which dtc
// reads already. Tensors are named by the members of the archive that hold them.
#pragma once

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dtc::torchscript {

using Json = nlohmann::json;

/// What this program doesn't take: one line for the user.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "parameter", "buffer", "tensor_constant", as the schema calls them.
enum class TensorKind { Parameter, Buffer, Constant };

/// A tensor that the archive stores, or one that was computed while recording.
struct StoredTensor {
  std::string value; ///< its name in the program
  std::string name;  ///< that of state_dict
  TensorKind kind;
  std::string member; ///< of the archive; empty: `bytes` are the elements
  std::string bytes;  ///< as hexadecimal digits
  Json meta;
};

struct Call {
  std::string target; ///< "aten.add.Tensor"
  std::string source; ///< "model.py:12"
  Json inputs = Json::array();
  std::vector<std::string> results;
  bool isList = false; ///< the results are one list
};

// Arguments as the schema writes them.
Json tensorArgument(const std::string &value);
Json intArgument(int64_t value);
Json intsArgument(const std::vector<int64_t> &values);
Json named(const std::string &name, Json argument);

class Program {
public:
  void addInput(const std::string &name, Json meta);
  void addTensor(StoredTensor tensor) { tensors.push_back(std::move(tensor)); }
  void addCall(Call call);
  void addOutput(const std::string &value);
  /// The buffer has this value afterwards.
  void addBufferChange(const std::string &buffer, const std::string &value);

  /// A name that no value has, made of this one.
  std::string freshName(const std::string &like);

  /// Two lines of JSON: the program without the calls that nothing depends on; where its tensors
  /// lie.
  std::string write() const;

private:
  std::vector<size_t> liveCalls() const;

  std::vector<std::pair<std::string, Json>> inputs;
  std::vector<StoredTensor> tensors;
  std::vector<Call> calls;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, std::string>> bufferChanges;
  std::map<std::string, int64_t> taken;
};

} // namespace dtc::torchscript
