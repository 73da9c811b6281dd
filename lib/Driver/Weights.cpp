#include "Weights.h"

#include "dtc-io/InputFile.h"
#include "dtc-io/Json.h"
#include "dtc-rt/Files/ArrayFile.h"
#include "dtc-rt/Program/DType.h"
#include "dtc-rt/Program/LossScaling.h"
#include "dtc/Dialect/Graph/Adapters.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Plan/Plan/Problem.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

namespace dtc::driver {

namespace filesystem = std::filesystem;
using plan::Error;
using plan::Result;

// The runtime knows them by the names that training gives them.
static_assert(std::string_view(graph::kLossScale) == rt::kLossScale &&
              std::string_view(graph::kCleanSteps) == rt::kCleanSteps &&
              std::string_view(graph::kSkippedSteps) == rt::kSkippedSteps);

namespace {

/// An array in one of the files given.
struct Found {
  const rt::Array *array;
  const rt::ArrayFile *file;
};

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
        return Error{path + ": no .safetensors file in this folder"};
      return files;
    }
  } else if (index.extension() != ".json") {
    return std::vector<std::string>{path};
  }
  constexpr uint64_t kMostBytes = 64 << 20;
  std::string why;
  std::optional<std::string> text = io::readFile(index.string(), kMostBytes, why);
  std::optional<nlohmann::json> json;
  if (text)
    json = io::parseJson<nlohmann::json>(*text, why);
  if (!json)
    return Error{index.string() + ": cannot read the index of safetensors files: " + why};
  if (!json->is_object() || !json->contains("weight_map") || !json->at("weight_map").is_object())
    return Error{index.string() + ": not an index of safetensors files"};
  std::set<std::string> files;
  for (auto &[name, file] : json->at("weight_map").items()) {
    if (!file.is_string() || filesystem::path(file.get<std::string>()).has_parent_path())
      return Error{index.string() + ": '" + name + "' is not in a file of this folder"};
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

/// How names of the model and of the files differ. All of the former have one prefix, and all of
/// the latter have another.
struct Prefixes {
  std::string ofModel, ofFiles;
  size_t size() const { return ofModel.size() + ofFiles.size(); }
};

using Arrays = std::map<std::string, Found>;

/// The arrays under the parameter's names, its own name first.
std::vector<Arrays::const_iterator> findAll(const Arrays &arrays, graph::ParameterOp parameter,
                                            const Prefixes &prefixes) {
  std::vector<Arrays::const_iterator> entries;
  for (const std::string &name : namesOf(parameter)) {
    if (!name.starts_with(prefixes.ofModel))
      continue;
    auto entry = arrays.find(prefixes.ofFiles + name.substr(prefixes.ofModel.size()));
    if (entry != arrays.end())
      entries.push_back(entry);
  }
  return entries;
}

/// All pairs of prefixes, up to a dot, under which a name of the parameter is an array's.
void addPrefixes(graph::ParameterOp parameter, const Arrays &arrays,
                 std::map<std::pair<std::string, std::string>, Prefixes> &result) {
  for (const std::string &name : namesOf(parameter))
    for (size_t cut = 0; cut != std::string::npos;) {
      std::string rest = name.substr(cut);
      if (cut > 0 && rest.find('.') == std::string::npos)
        break; // "weight" alone is the end of most names
      for (const auto &[array, found] : arrays) {
        std::string before = array.substr(0, array.size() - std::min(rest.size(), array.size()));
        if (array == before + rest && (before.empty() || before.ends_with('.')))
          result[{name.substr(0, cut), before}] = {name.substr(0, cut), before};
      }
      size_t dot = name.find('.', cut);
      cut = dot == std::string::npos ? dot : dot + 1;
    }
}

/// The shortest of the pairs under which most parameters are found. There is none if a name is an
/// array's as it is. What is missing then is missing, though a guess might find something.
Prefixes choosePrefixes(const std::vector<graph::ParameterOp> &parameters, const Arrays &arrays) {
  // A few parameters tell: one may be missing, and must not hide the others.
  constexpr size_t kAsked = 4;
  std::map<std::pair<std::string, std::string>, Prefixes> candidates;
  for (size_t i = 0; i < parameters.size(); i += std::max<size_t>(1, parameters.size() / kAsked))
    addPrefixes(parameters[i], arrays, candidates);
  Prefixes best;
  auto countOf = [&](const Prefixes &prefixes) {
    return llvm::count_if(parameters, [&](graph::ParameterOp parameter) {
      return !findAll(arrays, parameter, prefixes).empty();
    });
  };
  auto most = countOf(best);
  if (most > 0)
    return best;
  for (const auto &[key, prefixes] : candidates) {
    auto count = countOf(prefixes);
    if (count > most || (count == most && prefixes.size() < best.size())) {
      most = count;
      best = prefixes;
    }
  }
  return best;
}

int64_t bytesOf(const rt::Array &array) {
  int64_t bytes = rt::sizeOf(array.dtype);
  for (int64_t size : array.shape)
    bytes *= size;
  return bytes;
}

Result<Weight> makeWeight(graph::ParameterOp parameter, const Found &found) {
  auto type = llvm::cast<mlir::RankedTensorType>(parameter.getFileType());
  std::string where = found.file->path + ": '" + parameter.getSymName().str() + "': ";
  if (type.getShape() != llvm::ArrayRef<int64_t>(found.array->shape))
    return Error{where + "expected shape " + plan::shapeText(type.getShape().vec()) + ", got " +
                 plan::shapeText(found.array->shape)};
  bool isFloat = llvm::isa<mlir::FloatType>(type.getElementType());
  if (isFloat != rt::isFloat(found.array->dtype))
    return Error{where + "wrong dtype " + rt::nameOf(found.array->dtype)};
  Weight weight;
  weight.dtype = rt::nameOf(found.array->dtype);
  weight.shape = found.array->shape;
  weight.data = reinterpret_cast<const std::byte *>(found.array->data);
  weight.size = rt::sizeOf(found.array->dtype) * type.getNumElements();
  weight.owner = found.file->owner;
  if (!found.file->bytes.empty()) {
    weight.file = found.file->path;
    weight.offset = static_cast<uint64_t>(found.array->data - found.file->bytes.data());
  }
  return weight;
}

} // namespace

/// The arrays of all files by name.
static Result<Arrays> indexArrays(const std::vector<std::string> &files,
                                  std::vector<rt::ArrayFile> &opened) {
  Arrays arrays;
  opened.reserve(files.size());
  for (const std::string &file : files) {
    auto read = rt::ArrayFile::open(file);
    if (!read)
      return read.status().error();
    opened.push_back(std::move(*read));
    for (auto &[name, array] : opened.back().arrays)
      if (!arrays.try_emplace(name, Found{&array, &opened.back()}).second)
        return Error{file + ": '" + name + "' is in another file too"};
  }
  return arrays;
}

/// A tied parameter under two names has the same elements under both.
static std::optional<Error> checkTies(llvm::ArrayRef<Arrays::const_iterator> entries) {
  for (size_t i = 1; i < entries.size(); ++i) {
    const rt::Array &first = *entries[0]->second.array, &next = *entries[i]->second.array;
    const bool equal = first.dtype == next.dtype && first.shape == next.shape &&
                       std::memcmp(first.data, next.data, bytesOf(first)) == 0;
    if (!equal)
      return Error{entries[i]->second.file->path + ": '" + entries[0]->first + "' and '" +
                   entries[i]->first + "' differ, the model has one parameter for both"};
  }
  return std::nullopt;
}

/// What no file has.
static bool isMadeForTraining(graph::ParameterOp parameter) {
  return graph::adapterOf(parameter) || graph::initialOf(parameter);
}

Result<LoadedWeights> loadWeights(const std::string &path, mlir::ModuleOp module,
                                  WeightStore &store, bool partial) {
  auto files = listFiles(path);
  if (!files)
    return files.error();
  std::vector<rt::ArrayFile> opened;
  auto arrays = indexArrays(*files, opened);
  if (!arrays)
    return arrays.error();
  auto range = module.getOps<graph::ParameterOp>();
  std::vector<graph::ParameterOp> parameters(range.begin(), range.end());
  Prefixes prefixes = choosePrefixes(parameters, *arrays);
  LoadedWeights loaded;
  std::set<std::string> read;
  for (graph::ParameterOp parameter : parameters) {
    std::string name = parameter.getSymName().str();
    auto entries = findAll(*arrays, parameter, prefixes);
    if (entries.empty() && isMadeForTraining(parameter))
      continue;
    if (entries.empty()) {
      (store[name].data ? loaded.kept : loaded.missing).push_back(name);
      continue;
    }
    if (auto error = checkTies(entries))
      return *error;
    auto weight = makeWeight(parameter, entries.front()->second);
    if (!weight)
      return weight.error();
    store[name] = *weight;
    for (auto entry : entries)
      read.insert(entry->first);
  }
  if (read.empty())
    return Error{path + ": has no tensor of the model"};
  if (!loaded.missing.empty() && !partial)
    return Error{path + ": has no " + llvm::join(loaded.missing, ", ")};
  for (const auto &[name, found] : *arrays)
    if (!read.contains(name))
      loaded.unread.push_back(name);
  return loaded;
}

std::map<std::string, package::Distribution> madeForTraining(mlir::ModuleOp module,
                                                             const WeightStore &store) {
  std::map<std::string, package::Distribution> result;
  mlir::SymbolTable symbols(module);
  for (const std::string &name : withoutData(module, store)) {
    auto parameter = symbols.lookup<graph::ParameterOp>(name);
    if (auto adapter = graph::adapterOf(parameter))
      result[name].sd = adapter.getDeviation().getValueAsDouble();
    else if (auto initial = graph::initialOf(parameter))
      result[name].mean = *initial;
  }
  return result;
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
    if (isMadeForTraining(parameter))
      continue;
    auto type = llvm::cast<mlir::RankedTensorType>(parameter.getFileType());
    llvm::StringRef text = name;
    package::Distribution &draw = result[name];
    if (parameter.getBuffer()) {
      if (!text.ends_with("running_mean") && !text.ends_with("running_var"))
        return Error{"buffer '" + name +
                     "' has no data, and --init draws parameters alone; export the module with "
                     "data (not on the device meta), or give --weights a file that has it, which a "
                     "state_dict has of persistent buffers alone"};
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
