#include "Module.h"

#include "Calls.h"

#include "dtc-c/Program.h"

#include <cmath>
#include <mutex>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string_view>

namespace dtc::python {
namespace {

/// Element types, as safetensors and DLPack write them.
struct ElementType {
  const char *name;
  nb::dlpack::dtype_code code;
  uint8_t bits;
};
constexpr ElementType kElementTypes[] = {
    {"F64", nb::dlpack::dtype_code::Float, 64}, {"F32", nb::dlpack::dtype_code::Float, 32},
    {"F16", nb::dlpack::dtype_code::Float, 16}, {"BF16", nb::dlpack::dtype_code::Bfloat, 16},
    {"I64", nb::dlpack::dtype_code::Int, 64},   {"I32", nb::dlpack::dtype_code::Int, 32},
    {"I16", nb::dlpack::dtype_code::Int, 16},   {"I8", nb::dlpack::dtype_code::Int, 8},
    {"U64", nb::dlpack::dtype_code::UInt, 64},  {"U32", nb::dlpack::dtype_code::UInt, 32},
    {"U16", nb::dlpack::dtype_code::UInt, 16},  {"U8", nb::dlpack::dtype_code::UInt, 8},
    {"BOOL", nb::dlpack::dtype_code::Bool, 8},
};

const ElementType &typeNamed(std::string_view name) {
  for (const ElementType &type : kElementTypes)
    if (type.name == name)
      return type;
  throw nb::type_error("an element type that no array has");
}

const char *nameOf(nb::dlpack::dtype dtype) {
  for (const ElementType &type : kElementTypes)
    if (uint8_t(type.code) == dtype.code && type.bits == dtype.bits && dtype.lanes == 1)
      return type.name;
  return nullptr;
}

using Batch = nb::ndarray<nb::ro>;
using OwnArray = nb::ndarray<nb::array_api>;

bool isRowMajor(const Batch &array) {
  int64_t expected = 1;
  for (size_t dim = array.ndim(); dim-- > 0;) {
    if (array.shape(dim) != 1 && array.stride(dim) != expected)
      return false;
    expected *= int64_t(array.shape(dim));
  }
  return true;
}

/// A batch as the C API takes it, which reads the arrays where they are.
class BatchTensors {
public:
  explicit BatchTensors(const nb::dict &batch) {
    for (auto [key, value] : batch) {
      if (!nb::try_cast(key, names.emplace_back()))
        throw nb::type_error("the batch: the name of an array is no string");
      if (!nb::try_cast(value, arrays.emplace_back()))
        throw nb::type_error(
            (names.back() +
             ": is no array of this machine's numbers, as NumPy and PyTorch have them")
                .c_str());
      check(names.back(), arrays.back());
    }
    for (const Batch &array : arrays) {
      std::vector<int64_t> &shape = shapes.emplace_back();
      for (size_t dim = 0; dim < array.ndim(); ++dim)
        shape.push_back(int64_t(array.shape(dim)));
    }
    for (size_t i = 0; i < arrays.size(); ++i)
      tensors.push_back({names[i].c_str(), nameOf(arrays[i].dtype()), shapes[i].data(),
                         shapes[i].size(), const_cast<void *>(arrays[i].data())});
  }
  const DtcTensor *data() const { return tensors.data(); }
  size_t size() const { return tensors.size(); }

private:
  static void check(const std::string &name, const Batch &array) {
    if (array.device_type() != nb::device::cpu::value)
      throw nb::value_error((name + ": the array is not in the host's memory").c_str());
    if (!nameOf(array.dtype()))
      throw nb::type_error((name + ": the array has elements of an unknown type").c_str());
    if (!isRowMajor(array))
      throw nb::value_error((name + ": the array is not contiguous").c_str());
  }

  std::vector<std::string> names;
  std::vector<Batch> arrays;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DtcTensor> tensors;
};

OwnArray makeArray(const DtcTensor &tensor) {
  const ElementType &type = typeNamed(tensor.dtype);
  std::vector<size_t> shape(tensor.shape, tensor.shape + tensor.rank);
  size_t bytes = type.bits / 8;
  for (size_t size : shape)
    bytes *= size;
  auto *data = new char[bytes];
  nb::capsule owner(data, [](void *bytes) noexcept { delete[] static_cast<char *>(bytes); });
  return OwnArray(data, shape.size(), shape.data(), owner, nullptr,
                  nb::dlpack::dtype{uint8_t(type.code), type.bits, 1});
}

/// A program of the C API. Its calls, from whatever threads, take turns.
class Program {
public:
  Program(const std::string &artifact, uint64_t seed) {
    callUnlocked([&] { return dtcProgramOpen(artifact.c_str(), seed, &handle); });
  }
  ~Program() {
    nb::gil_scoped_release unlocked;
    dtcProgramDestroy(handle);
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  DtcStep step(const nb::dict &batch) {
    BatchTensors tensors(batch);
    return stepBy([&](DtcStep *made) {
      return dtcProgramStep(handle, tensors.data(), tensors.size(), made);
    });
  }
  DtcStep stepOnData() {
    return stepBy([&](DtcStep *made) { return dtcProgramStepOnData(handle, made); });
  }
  void setData(const std::string &path, bool shuffle) {
    inTurn([&] { return dtcProgramSetData(handle, path.c_str(), shuffle); });
  }
  double evaluate(const std::string &path) {
    double loss = 0;
    inTurn([&] { return dtcProgramEvaluate(handle, path.c_str(), &loss); });
    return loss;
  }
  double evaluateBatch(const nb::dict &batch) {
    BatchTensors tensors(batch);
    double loss = 0;
    inTurn([&] { return dtcProgramEvaluateBatch(handle, tensors.data(), tensors.size(), &loss); });
    return loss;
  }
  nb::dict forward(const nb::dict &batch) {
    BatchTensors tensors(batch);
    std::vector<void *> places;
    nb::dict result;
    for (size_t i = 0; const DtcTensor *output = dtcProgramOutput(handle, i); ++i) {
      OwnArray array = makeArray(*output);
      places.push_back(array.data());
      result[output->name] = array;
    }
    inTurn([&] {
      return dtcProgramForward(handle, tensors.data(), tensors.size(), places.data(),
                               places.size());
    });
    return result;
  }
  void saveWeights(const std::string &path) {
    inTurn([&] { return dtcProgramSaveWeights(handle, path.c_str()); });
  }

  void saveArtifact(const std::string &path) {
    inTurn([&] { return dtcProgramSaveArtifact(handle, path.c_str()); });
  }

  /// Aliases of a tied weight are the same array.
  nb::dict weights() {
    std::vector<OwnArray> arrays;
    std::vector<void *> places;
    size_t count = 0;
    for (; const DtcTensor *tensor = dtcProgramParameter(handle, count); ++count) {
      if (dtcProgramParameterOwner(handle, count) != count)
        continue;
      arrays.push_back(makeArray(*tensor));
      places.push_back(arrays.back().data());
    }
    inTurn([&] { return dtcProgramReadWeights(handle, places.data(), places.size()); });
    nb::dict result;
    for (size_t i = 0; i < count; ++i)
      result[dtcProgramParameter(handle, i)->name] = arrays[dtcProgramParameterOwner(handle, i)];
    return result;
  }

  nb::list inputs() const { return described(dtcProgramInput); }
  nb::list outputs() const { return described(dtcProgramOutput); }

  int64_t stepsDone() const { return dtcProgramStepsDone(handle); }
  int64_t worldSize() const { return dtcProgramWorldSize(handle); }
  int64_t numSamples() const { return dtcProgramNumSamples(handle); }
  int64_t globalBatch() const { return dtcProgramGlobalBatch(handle); }

private:
  nb::list described(const DtcTensor *(*find)(const DtcProgram *, size_t)) const {
    nb::list result;
    for (size_t i = 0; const DtcTensor *tensor = find(handle, i); ++i) {
      nb::list shape;
      for (size_t dim = 0; dim < tensor->rank; ++dim)
        shape.append(tensor->shape[dim]);
      result.append(nb::make_tuple(tensor->name, tensor->dtype, nb::tuple(shape)));
    }
    return result;
  }
  template <typename Call> void inTurn(Call &&call) {
    callUnlocked([&] {
      std::lock_guard turn(mutex);
      return call();
    });
  }
  template <typename Call> DtcStep stepBy(Call &&call) {
    DtcStep made = {};
    inTurn([&] { return call(&made); });
    return made;
  }

  DtcProgram *handle = nullptr;
  std::mutex mutex;
};

} // namespace

/// None where it isn't computed.
static std::optional<double> numberOf(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

static nb::object textOf(const DtcStep &made) {
  nb::str text =
      nb::str("Step(step={}, loss={:.6g}, grad_norm={:.6g}, lr={:.6g}, seconds={:.4g}{})");
  nb::str scale("");
  if (auto value = numberOf(made.lossScale))
    scale = nb::str(", loss_scale={:.6g}").format(*value);
  return text.format(made.step, made.loss, made.gradNorm, made.lr, made.seconds, scale);
}

void defineProgram(nb::module_ &module) {
  nb::class_<DtcStep>(module, "Step", "What a step gave.")
      .def_ro("step", &DtcStep::step, "Its number, from 1.")
      .def_ro("loss", &DtcStep::loss, "Before the update.")
      .def_ro("grad_norm", &DtcStep::gradNorm, "Of the gradient, before the update.")
      .def_ro("lr", &DtcStep::lr, "The learning rate.")
      .def_ro("seconds", &DtcStep::seconds, "How long it took.")
      .def_prop_ro(
          "loss_scale", [](const DtcStep &made) { return numberOf(made.lossScale); },
          "With fp16: what the next step multiplies the loss by.")
      .def_prop_ro(
          "skipped_steps", [](const DtcStep &made) { return numberOf(made.skippedSteps); },
          "With fp16: steps so far that updated nothing, as a gradient wasn't finite.")
      .def("__repr__", textOf);
  nb::class_<Program>(module, "Program", "An artifact whose ranks stay at hand between steps.")
      .def(nb::init<const std::string &, uint64_t>(), nb::arg("artifact"), nb::arg("seed"))
      .def("step", &Program::step, nb::arg("batch"), "One step, of an array for each input.")
      .def("set_data", &Program::setData, nb::arg("path"), nb::arg("shuffle"),
           "The file that steps without a batch take their samples of.")
      .def("step_on_data", &Program::stepOnData, "One step of that file.")
      .def("evaluate", &Program::evaluate, nb::arg("path"), "The mean loss on a file.")
      .def("evaluate_batch", &Program::evaluateBatch, nb::arg("batch"), "The loss on a batch.")
      .def("forward", &Program::forward, nb::arg("batch"), "The outputs of a batch, by name.")
      .def("weights", &Program::weights, "Parameters and buffers, copied, by name.")
      .def("save_weights", &Program::saveWeights, nb::arg("path"), "Writes a safetensors file.")
      .def("save_artifact", &Program::saveArtifact, nb::arg("path"), "Copies the artifact.")
      .def("inputs", &Program::inputs, "Name, element type and shape of what a batch has.")
      .def("outputs", &Program::outputs, "Likewise of what is computed where there is no loss.")
      .def_prop_ro("num_samples", &Program::numSamples)
      .def_prop_ro("steps_done", &Program::stepsDone)
      .def_prop_ro("world_size", &Program::worldSize)
      .def_prop_ro("global_batch", &Program::globalBatch);
}

} // namespace dtc::python
