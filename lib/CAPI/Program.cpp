#include "dtc-c/Program.h"

#include "Error.h"

#include "dtc-rt/Program/DropoutKeys.h"
#include "dtc-rt/Program/LossScaling.h"
#include "dtc-rt/Trainer.h"

#include <deque>
#include <limits>

using namespace dtc;

struct DtcProgram {
  /// A tensor whose name and shape live here.
  struct Described {
    std::string name;
    rt::Dims shape;
    DtcTensor tensor;
  };

  void describe(std::deque<Described> &list, std::string name, rt::DType dtype, rt::Dims shape);

  std::unique_ptr<rt::Trainer> trainer;
  std::deque<Described> inputs, outputs, parameters; ///< which stay where they are
  std::vector<size_t> owners;                        ///< of parameters
};

void DtcProgram::describe(std::deque<Described> &list, std::string name, rt::DType dtype,
                          rt::Dims shape) {
  Described &made = list.emplace_back(std::move(name), std::move(shape), DtcTensor{});
  made.tensor = {made.name.c_str(), rt::nameOf(dtype), made.shape.data(), made.shape.size(),
                 nullptr};
}

static void describeAll(DtcProgram &program) {
  const rt::Manifest &manifest = program.trainer->manifest();
  for (const rt::TensorInfo &input : manifest.inputs) {
    if (input.name == rt::kDropoutKeys)
      continue; // made by the runtime
    program.describe(program.inputs, input.name, input.dtype,
                     input.fileShape(manifest.globalBatch));
  }
  for (const rt::TensorInfo &output : manifest.outputs)
    program.describe(program.outputs, output.name, output.dtype,
                     output.fileShape(manifest.globalBatch));
  for (const rt::ParameterInfo &info : manifest.parameters) {
    if (rt::isLossScaling(info.name))
      continue; // they come last
    program.owners.push_back(program.parameters.size());
    program.describe(program.parameters, info.name, info.dtype, info.shape);
  }
  for (size_t owner = 0; owner < manifest.parameters.size(); ++owner) {
    const rt::ParameterInfo &info = manifest.parameters[owner];
    for (const std::string &alias : info.aliases) {
      program.owners.push_back(owner);
      program.describe(program.parameters, alias, info.dtype, info.shape);
    }
  }
}

DtcError *dtcProgramOpen(const char *artifact, uint64_t seed, DtcProgram **program) {
  return capi::guarded([&]() -> DtcError * {
    rt::Trainer::Options options;
    options.seed = seed;
    auto trainer = rt::Trainer::open(artifact, options);
    if (!trainer)
      return capi::errorOf(trainer.status());
    auto made = std::make_unique<DtcProgram>();
    made->trainer = std::move(*trainer);
    describeAll(*made);
    *program = made.release();
    return nullptr;
  });
}

void dtcProgramDestroy(DtcProgram *program) { delete program; }

int64_t dtcProgramStepsDone(const DtcProgram *program) { return program->trainer->stepsDone(); }

int64_t dtcProgramWorldSize(const DtcProgram *program) {
  return program->trainer->manifest().worldSize;
}

int64_t dtcProgramGlobalBatch(const DtcProgram *program) {
  return program->trainer->manifest().globalBatch;
}

const DtcTensor *dtcProgramInput(const DtcProgram *program, size_t index) {
  return index < program->inputs.size() ? &program->inputs[index].tensor : nullptr;
}

const DtcTensor *dtcProgramOutput(const DtcProgram *program, size_t index) {
  return index < program->outputs.size() ? &program->outputs[index].tensor : nullptr;
}

const DtcTensor *dtcProgramParameter(const DtcProgram *program, size_t index) {
  return index < program->parameters.size() ? &program->parameters[index].tensor : nullptr;
}

size_t dtcProgramParameterOwner(const DtcProgram *program, size_t index) {
  return program->owners[index];
}

static DtcStep stepOf(const rt::StepMetrics &metrics) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  return {metrics.step,
          metrics.loss.value_or(none),
          metrics.gradNorm.value_or(none),
          metrics.lr,
          metrics.seconds,
          metrics.lossScale.value_or(none),
          metrics.skippedSteps.value_or(none)};
}

static DtcError *store(rt::Result<rt::StepMetrics> metrics, DtcStep *result) {
  if (!metrics)
    return capi::errorOf(metrics.status());
  *result = stepOf(*metrics);
  return nullptr;
}

static DtcError *store(rt::Result<double> loss, double *result) {
  if (!loss)
    return capi::errorOf(loss.status());
  *result = *loss;
  return nullptr;
}

static rt::Result<std::map<std::string, rt::Array>> arraysOf(std::span<const DtcTensor> batch) {
  std::map<std::string, rt::Array> arrays;
  for (const DtcTensor &tensor : batch) {
    auto dtype = rt::parseDType(tensor.dtype);
    if (!dtype)
      return rt::refused(std::string("the batch: ") + tensor.name +
                         ": unknown element type: " + tensor.dtype);
    arrays[tensor.name] = {
        *dtype, {tensor.shape, tensor.shape + tensor.rank}, static_cast<const char *>(tensor.data)};
  }
  return arrays;
}

DtcError *dtcProgramStep(DtcProgram *program, const DtcTensor *batch, size_t numTensors,
                         DtcStep *result) {
  return capi::guarded([&]() -> DtcError * {
    auto arrays = arraysOf({batch, numTensors});
    if (!arrays)
      return capi::errorOf(arrays.status());
    return store(program->trainer->step(*arrays), result);
  });
}

static std::vector<char *> placesOf(void *const *places, size_t numPlaces) {
  std::vector<char *> result;
  for (void *place : std::span(places, numPlaces))
    result.push_back(static_cast<char *>(place));
  return result;
}

DtcError *dtcProgramForward(DtcProgram *program, const DtcTensor *batch, size_t numTensors,
                            void *const *places, size_t numPlaces) {
  return capi::guarded([&]() -> DtcError * {
    auto arrays = arraysOf({batch, numTensors});
    if (!arrays)
      return capi::errorOf(arrays.status());
    return capi::errorOf(program->trainer->forward(*arrays, placesOf(places, numPlaces)));
  });
}

DtcError *dtcProgramEvaluate(DtcProgram *program, const char *path, double *loss) {
  return capi::guarded([&] { return store(program->trainer->evaluate(std::string(path)), loss); });
}

DtcError *dtcProgramEvaluateBatch(DtcProgram *program, const DtcTensor *batch, size_t numTensors,
                                  double *loss) {
  return capi::guarded([&]() -> DtcError * {
    auto arrays = arraysOf({batch, numTensors});
    if (!arrays)
      return capi::errorOf(arrays.status());
    return store(program->trainer->evaluate(*arrays), loss);
  });
}

DtcError *dtcProgramSetData(DtcProgram *program, const char *path, int shuffle) {
  return capi::guarded(
      [&] { return capi::errorOf(program->trainer->setData(path, shuffle != 0)); });
}

int64_t dtcProgramNumSamples(const DtcProgram *program) { return program->trainer->numSamples(); }

DtcError *dtcProgramStepOnData(DtcProgram *program, DtcStep *result) {
  return capi::guarded([&] { return store(program->trainer->step(), result); });
}

DtcError *dtcProgramReadWeights(DtcProgram *program, void *const *places, size_t numPlaces) {
  return capi::guarded(
      [&] { return capi::errorOf(program->trainer->readWeights(placesOf(places, numPlaces))); });
}

DtcError *dtcProgramSaveWeights(DtcProgram *program, const char *path) {
  return capi::guarded([&] { return capi::errorOf(program->trainer->saveWeights(path)); });
}

DtcError *dtcProgramSaveArtifact(DtcProgram *program, const char *path) {
  return capi::guarded([&] { return capi::errorOf(program->trainer->saveArtifact(path)); });
}
