#include "Weights.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc-rt/ArrayFile.h"
#include "dtc-rt/DType.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

namespace dtc::driver {

namespace filesystem = std::filesystem;
using plan::Error;
using plan::Result;

namespace {

/// An array in one of the files given.
struct Found {
  const rt::Array *array;
  const rt::ArrayFile *file;
};

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

/// The files an index names, or those of a folder, or the file itself.
Result<std::vector<std::string>> listFiles(const std::string &path) {
  filesystem::path index = path;
  std::error_code error;
  if (filesystem::is_directory(path, error)) {
    index = filesystem::path(path) / "model.safetensors.index.json";
    if (!filesystem::exists(index, error)) {
      std::vector<std::string> files;
      for (auto &entry : filesystem::directory_iterator(path, error))
        if (entry.path().extension() == ".safetensors")
          files.push_back(entry.path().string());
      std::sort(files.begin(), files.end());
      if (files.empty())
        return Error{path + ": no .safetensors file in this folder", 3};
      return files;
    }
  } else if (index.extension() != ".json") {
    return std::vector<std::string>{path};
  }
  std::ifstream stream(index);
  auto json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return Error{index.string() + ": not an index of safetensors files", 3};
  std::set<std::string> files;
  for (auto &[name, file] : json["weight_map"].items()) {
    if (!file.is_string() || filesystem::path(file.get<std::string>()).has_parent_path())
      return Error{index.string() + ": '" + name + "' is not in a file of this folder", 3};
    files.insert((index.parent_path() / file.get<std::string>()).string());
  }
  return std::vector<std::string>(files.begin(), files.end());
}

/// Names under which a parameter may be found, its own first.
std::vector<std::string> namesOf(graph::ParameterOp parameter) {
  std::vector<std::string> names = {parameter.getSymName().str()};
  for (auto alias : parameter.getAliases().getAsRange<mlir::StringAttr>())
    names.push_back(alias.str());
  return names;
}

/// "m." when every name starts with it, else "".
std::string sharedPrefix(const std::vector<graph::ParameterOp> &parameters) {
  std::string prefix;
  for (size_t i = 0; i < parameters.size(); ++i) {
    llvm::StringRef name = graph::ParameterOp(parameters[i]).getSymName();
    std::string own = name.substr(0, name.find('.') + 1).str();
    if (i && own != prefix)
      return "";
    prefix = own;
  }
  return prefix;
}

const Found *find(const std::map<std::string, Found> &arrays, graph::ParameterOp parameter,
                  const std::string &prefix) {
  for (const std::string &name : namesOf(parameter)) {
    for (const std::string &candidate :
         {name, name.starts_with(prefix) ? name.substr(prefix.size()) : name, "model." + name}) {
      auto entry = arrays.find(candidate);
      if (entry != arrays.end())
        return &entry->second;
    }
  }
  return nullptr;
}

Result<Weight> makeWeight(graph::ParameterOp parameter, const Found &found) {
  auto type = llvm::cast<mlir::RankedTensorType>(parameter.getFileType());
  std::string where = found.file->path + ": '" + parameter.getSymName().str() + "': ";
  if (type.getShape() != llvm::ArrayRef<int64_t>(found.array->shape))
    return Error{where + "expected shape " + shapeText(type.getShape()) + ", got " +
                     shapeText(found.array->shape),
                 3};
  bool isFloat = llvm::isa<mlir::FloatType>(type.getElementType());
  if (isFloat != rt::isFloat(found.array->dtype))
    return Error{where + "wrong dtype " + rt::nameOf(found.array->dtype), 3};
  Weight weight;
  weight.dtype = rt::nameOf(found.array->dtype);
  weight.shape = found.array->shape;
  weight.data = reinterpret_cast<const std::byte *>(found.array->data);
  weight.size = rt::sizeOf(found.array->dtype) * type.getNumElements();
  weight.owner = found.file->owner;
  return weight;
}

} // namespace

Result<bool> loadWeights(const std::string &path, mlir::ModuleOp module, WeightStore &store) {
  auto files = listFiles(path);
  if (!files)
    return files.error();
  std::vector<rt::ArrayFile> opened;
  opened.reserve(files->size());
  std::map<std::string, Found> arrays;
  for (const std::string &file : *files) {
    auto read = rt::ArrayFile::open(file);
    if (!read)
      return Error{read.status().message(), int(read.status().code())};
    opened.push_back(std::move(*read));
    for (auto &[name, array] : opened.back().arrays)
      if (!arrays.try_emplace(name, Found{&array, &opened.back()}).second)
        return Error{file + ": '" + name + "' is in another file too", 3};
  }
  auto range = module.getOps<graph::ParameterOp>();
  std::vector<graph::ParameterOp> parameters(range.begin(), range.end());
  std::string prefix = sharedPrefix(parameters), missing;
  for (graph::ParameterOp parameter : parameters) {
    std::string name = parameter.getSymName().str();
    const Found *found = find(arrays, parameter, prefix);
    if (!found) {
      if (!store[name].data)
        missing += (missing.empty() ? "" : ", ") + name;
      continue;
    }
    auto weight = makeWeight(parameter, *found);
    if (!weight)
      return weight.error();
    store[name] = *weight;
  }
  if (!missing.empty())
    return Error{path + ": has no " + missing, 3};
  return true;
}

std::vector<std::string> withoutData(mlir::ModuleOp module, const WeightStore &store) {
  std::vector<std::string> names;
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    auto entry = store.find(parameter.getSymName().str());
    if (entry == store.end() || !entry->second.data)
      names.push_back(parameter.getSymName().str());
  }
  return names;
}

Result<std::map<std::string, package::Distribution>>
chooseInitialization(mlir::ModuleOp module, const WeightStore &store) {
  std::map<std::string, package::Distribution> result;
  mlir::SymbolTable symbols(module);
  for (const std::string &name : withoutData(module, store)) {
    auto parameter = symbols.lookup<graph::ParameterOp>(name);
    auto type = llvm::cast<mlir::RankedTensorType>(parameter.getFileType());
    llvm::StringRef text = name;
    package::Distribution &draw = result[name];
    if (parameter.getBuffer()) {
      if (!text.ends_with("running_mean") && !text.ends_with("running_var"))
        return Error{"buffer '" + name + "' has no data and --init cannot know it; give --weights",
                     3};
      draw.mean = text.ends_with("running_var") ? 1 : 0;
    } else if (type.getRank() <= 1) {
      draw.mean = text.ends_with("weight") ? 1 : 0;
    } else if (type.getRank() == 2) {
      draw.sd = 0.02;
    } else {
      double fanOut = double(type.getNumElements()) / type.getDimSize(1);
      draw.sd = std::sqrt(2 / fanOut);
    }
  }
  return result;
}

} // namespace dtc::driver
