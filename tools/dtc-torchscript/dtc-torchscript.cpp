// Reads a TorchScript module with LibTorch and writes what its forward computes as plain data.
//
//   dtc-torchscript MODEL.pt INPUT=8x32xi64 ...
//
// dtc runs it for each such file, and reads what it writes to stdout (Import/PyTorch). It is a
// process of its own so that memory and time can be bounded, and that what crashes LibTorch doesn't
// crash dtc. Exit code 3 is for files that it refuses, with one line on stderr.
#include "Walk.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>

namespace dtc::torchscript {

static constexpr int kRefused = 3;

namespace {
struct GivenInput {
  std::string name;
  std::vector<int64_t> sizes;
  std::optional<at::ScalarType> type;
};
} // namespace

static std::optional<at::ScalarType> typeOf(const std::string &name) {
  static const std::map<std::string, at::ScalarType> types = {
      {"f64", at::kDouble}, {"f32", at::kFloat}, {"bf16", at::kBFloat16}, {"f16", at::kHalf},
      {"i64", at::kLong},   {"i32", at::kInt},   {"i8", at::kChar},       {"i1", at::kBool}};
  auto found = types.find(name);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

/// "ids=8x32xi64", which dtc has checked.
static GivenInput parseInput(const std::string &text) {
  GivenInput input;
  const size_t equals = text.find('=');
  input.name = text.substr(0, equals);
  size_t begin = equals == std::string::npos ? text.size() : equals + 1;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('x', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    if (auto type = typeOf(part))
      input.type = type;
    else
      input.sizes.push_back(std::stoll(part));
    begin = end + 1;
  }
  return input;
}

/// What may be taken: the file's tensors, and what LibTorch and the walk need. More ends this
/// process, of which dtc tells.
static void setLimits(const std::string &path) {
  struct stat about;
  const rlim_t file = ::stat(path.c_str(), &about) == 0 ? static_cast<rlim_t>(about.st_size) : 0;
  const rlim_t bytes = (rlim_t(4) << 30) + 2 * file, seconds = 60 + file / (100 << 20);
  const rlimit memory = {bytes, bytes}, time = {seconds, seconds}, core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &core);
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CPU, &time);
}

static bool isTensor(const c10::TypePtr &type) {
  if (auto optional = type->cast<c10::OptionalType>())
    return isTensor(optional->getElementType());
  return type->kind() == c10::TypeKind::TensorType;
}

/// The arguments of forward: tensors as they are given, the defaults of the rest.
static std::vector<c10::IValue> makeArguments(const Archive &archive,
                                              const c10::FunctionSchema &schema,
                                              const std::vector<GivenInput> &given,
                                              const std::set<std::string> &integers,
                                              Values &values) {
  std::vector<c10::IValue> arguments = {archive.module._ivalue()};
  std::set<std::string> used;
  std::string missing;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument &argument = schema.arguments()[i];
    auto found = std::find_if(given.begin(), given.end(),
                              [&](const GivenInput &each) { return each.name == argument.name(); });
    if (found != given.end() && isTensor(argument.type())) {
      used.insert(found->name);
      const at::ScalarType assumed = integers.count(found->name) ? at::kLong : at::kFloat;
      arguments.push_back(values.addInput(found->name, found->sizes, found->type.value_or(assumed),
                                          found->type || integers.count(found->name)));
    } else if (argument.default_value()) {
      arguments.push_back(*argument.default_value());
    } else if (isTensor(argument.type())) {
      missing += (missing.empty() ? "--shape " : " --shape ") + argument.name() + "=BATCHx...";
    } else {
      throw Refusal("has an input that is no tensor and has no default: " + argument.name());
    }
  }
  for (const GivenInput &each : given)
    if (!used.count(each.name))
      throw Refusal("--shape names no input of the model: " + each.name);
  if (!missing.empty())
    throw Refusal("does not store the shapes of its inputs; give " + missing +
                  ", with a type after them if it isn't f32 (8x32xi64)");
  return arguments;
}

static void addOutputs(const c10::IValue &value, Values &values, Program &program) {
  bool any = false;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    any = true;
    program.addOutput(values.name(tensor));
  });
  if (!any)
    throw Refusal("gives no tensor");
}

static std::string record(const Archive &archive, const std::vector<GivenInput> &given,
                          const std::set<std::string> &integers) {
  Program program;
  Values values(archive, program);
  torch::jit::Function *forward = archive.module.type()->findMethod("forward");
  if (!forward)
    throw Refusal("has no forward");
  if (!archive.module.type()->getForwardHooks().empty() ||
      !archive.module.type()->getForwardPreHooks().empty())
    throw Refusal("has hooks on its forward, which are not supported");
  Walk walk(values, archive.module._ivalue()->compilation_unit());
  const c10::IValue result =
      walk.call(*forward, makeArguments(archive, forward->getSchema(), given, integers, values));
  addOutputs(result, values, program);
  values.addBufferChanges();
  return program.write();
}

/// An input without a type is a float, until something uses it as indices.
static std::string recordWithTypes(const Archive &archive, const std::vector<GivenInput> &given) {
  std::set<std::string> integers;
  for (;;) {
    try {
      return record(archive, given, integers);
    } catch (const NeedsIntegers &needed) {
      if (!integers.insert(needed.input).second)
        throw Refusal("needs integers as its input " + needed.input);
    }
  }
}

static int run(int count, char **arguments) {
  auto refuse = [](std::string why) {
    std::cerr << why.substr(0, why.find('\n')) << "\n";
    return kRefused;
  };
  try {
    const std::string path = arguments[1];
    std::vector<GivenInput> given;
    for (int i = 2; i < count; ++i)
      given.push_back(parseInput(arguments[i]));
    setLimits(path);
    at::set_num_threads(1);
    const Archive archive(path);
    c10::InferenceMode guard;
    std::cout << recordWithTypes(archive, given) << std::flush;
    return std::cout ? 0 : 1;
  } catch (const Refusal &refusal) {
    return refuse(refusal.what());
  } catch (const c10::Error &error) {
    return refuse(std::string("LibTorch can't read it: ") + error.what_without_backtrace());
  } catch (const std::bad_alloc &) {
    return refuse("takes more memory than a model of its size may");
  } catch (const std::exception &error) {
    return refuse(std::string("LibTorch can't read it: ") + error.what());
  }
}

} // namespace dtc::torchscript

int main(int count, char **arguments) {
  if (count < 2) {
    std::cerr << "usage: dtc-torchscript MODEL.pt INPUT=SHAPE ...\n";
    return 2;
  }
  return dtc::torchscript::run(count, arguments);
}
