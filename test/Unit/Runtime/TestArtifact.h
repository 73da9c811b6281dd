// Artifacts and programs made by hand, as the compiler would make them.
#pragma once

#include "dtc-rt/Program/Manifest.h"
#include "dtc-rt/Program_generated.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace dtc::rt::test {

using Json = nlohmann::ordered_json;

/// A folder that disappears with the object.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string &name) const { return (path / name).string(); }

private:
  std::filesystem::path path;
};

std::string readFile(const std::string &path);
void writeFile(const std::string &path, const std::string &bytes);

/// A zip of stored members at multiples of 64 bytes.
std::string zipOf(const std::vector<std::pair<std::string, std::string>> &members,
                  const std::string &comment);

/// The bytes of an artifact: `manifest` gets its "members".
std::string artifactOf(Json manifest, const std::map<std::string, std::string> &members);

/// A manifest of one role with nothing in it; `axes` are (name, size). Its key "mesh" is the
/// tests' own: what emptyProgram gives the program.
Json emptyManifest(const std::vector<std::pair<std::string, int64_t>> &axes = {});
Manifest parsed(const Json &manifest);

/// A safetensors file of float arrays (or of int64 where the name ends in "target"
/// or "ids").
std::string safetensorsOf(const Json &header, const std::string &data);
template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

fbs::Ref stepRef(uint64_t offset);
inline fbs::Ref scopeRef(fbs::Scope scope, uint64_t offset, uint64_t stride) {
  return fbs::Ref(offset, stride, scope, fbs::Space::Device);
}
std::unique_ptr<fbs::TensorT> tensorAt(uint64_t offset, Dims shape, Dims strides = {},
                                       fbs::DType dtype = fbs::DType::F32);

/// A tensor of floats that is divided by `axes`, a list for each dimension (none: not at all).
std::unique_ptr<fbs::BindingT> bindingOf(fbs::BindingKind kind, const std::string &name,
                                         uint64_t offset, Dims shape, Dims local,
                                         const std::vector<std::vector<int>> &axes = {});
std::unique_ptr<fbs::GroupT> groupOf(const std::vector<std::vector<int>> &lists);

/// A program of one function, called once. Group i is that of mesh axis i.
fbs::ProgramT emptyProgram(const Json &manifest, uint64_t arenaBytes);
template <typename Op>
Op &addInstruction(fbs::ProgramT &program, Op op, const std::string &name = "op") {
  auto instruction = std::make_unique<fbs::InstructionT>();
  instruction->name = name;
  instruction->op.Set(std::move(op));
  program.functions[0]->instructions.push_back(std::move(instruction));
  return *static_cast<Op *>(program.functions[0]->instructions.back()->op.value);
}
std::string serialized(const fbs::ProgramT &program);

} // namespace dtc::rt::test
