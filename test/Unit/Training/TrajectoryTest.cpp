// Real models trained on the reference interpreter, step by step, against the
// trajectories recorded from PyTorch.
#include "StepRunner.h"

#include "dtc/Import/ONNX/Import.h"
#include "dtc/Training/Train.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc;
using namespace dtc::test;
using training::TrainOptions;

namespace {

constexpr int64_t kGlobalBatch = 8;

struct Recorded {
  TrainOptions options;
  struct Step {
    double loss, gradNorm, learningRate;
  };
  std::vector<Step> steps;
};

std::string modelsPath(const std::string &file) {
  return std::string(DTC_TEST_DIR) + "/models/" + file;
}

void setOption(TrainOptions &options, const std::string &flag, const std::string &value) {
  if (flag == "--optimizer")
    options.optimizer = value == "sgd"    ? training::OptimizerKind::Sgd
                        : value == "adam" ? training::OptimizerKind::Adam
                                          : training::OptimizerKind::AdamW;
  else if (flag == "--weight-decay")
    options.weightDecay = std::stod(value);
  else if (flag == "--momentum")
    options.momentum = std::stod(value);
  else if (flag == "--clip-grad-norm")
    options.clipGradNorm = std::stod(value);
  else if (flag == "--precision")
    options.precision = training::Precision::BF16;
}

Recorded readTrajectory(const std::string &file) {
  Recorded recorded;
  auto buffer = llvm::MemoryBuffer::getFile(modelsPath(file));
  if (!buffer) {
    ADD_FAILURE() << "can't be read: " << file;
    return recorded;
  }
  llvm::json::Value json = llvm::cantFail(llvm::json::parse((*buffer)->getBuffer()));
  const llvm::json::Array &flags = *json.getAsObject()->getArray("flags");
  for (size_t i = 0; i < flags.size(); ++i) {
    std::string flag = flags[i].getAsString()->str();
    if (flag == "--nesterov")
      recorded.options.nesterov = true;
    else
      setOption(recorded.options, flag, flags[++i].getAsString()->str());
  }
  for (const llvm::json::Value &entry : *json.getAsObject()->getArray("steps")) {
    const llvm::json::Object &step = *entry.getAsObject();
    recorded.steps.push_back({*step.getNumber("loss"), *step.getNumber("grad_norm"),
                              *step.getNumber("lr")});
  }
  return recorded;
}

/// Samples [first, first + count), wrapping around.
Arrays samples(const Arrays &data, int64_t first, int64_t count) {
  Arrays batch;
  for (const auto &[name, array] : data) {
    SmallVector<int64_t> shape(array.shape());
    int64_t total = shape[0], row = array.size() / total;
    shape[0] = count;
    interpreter::Tensor part(array.type.clone(shape));
    for (int64_t i = 0; i < part.size(); ++i) {
      int64_t source = (first + i / row) % total * row + i % row;
      if (part.isFloat())
        part.floats[i] = array.floats[source];
      else
        part.ints[i] = array.ints[source];
    }
    batch.emplace(name, std::move(part));
  }
  return batch;
}

/// Relative. In bf16 the two differ in where they round; PyTorch rounds batch
/// norm's statistics too.
struct Tolerance {
  double loss, gradNorm;
};
constexpr Tolerance kF32{3e-6, 1e-5}, kBF16{4e-3, 2e-2};
/// Rounding changes the sign of a few ReLU inputs, and each passes a gradient or none.
constexpr Tolerance kBF16Kinks{6e-2, 1.5e-1};

struct Case {
  std::string model, data, trajectory; ///< file names
  Tolerance tolerance = kF32;
  int64_t numMicrobatches = 1;
  std::string finalWeights = ""; ///< file name: trained parameters to compare with
  double weightTolerance = 0;    ///< absolute
};

void compareWeights(const StepRunner &runner, const Arrays &expected, double tolerance) {
  size_t compared = 0;
  for (const auto &[name, weight] : expected) {
    const interpreter::Tensor *actual = runner.parameter(name);
    if (!actual) // the other name of a tied weight
      continue;
    ++compared;
    ASSERT_EQ(actual->size(), weight.size()) << name;
    double largest = 0;
    for (int64_t i = 0; i < weight.size(); ++i)
      largest = std::max(largest, std::abs(actual->floats[i] - weight.floats[i]));
    EXPECT_LE(largest, tolerance) << name;
  }
  EXPECT_GE(compared + 1, expected.size());
}

class Trajectory : public ::testing::TestWithParam<Case> {};

TEST_P(Trajectory, IsPyTorchs) {
  const Case &param = GetParam();
  MLIRContext context;
  DialectRegistry registry;
  registry.insert<graph::GraphDialect>();
  graph::registerElementwiseModels(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();

  import::ImportOptions importOptions;
  importOptions.path = modelsPath(param.model);
  auto file = import::openONNX(context, importOptions);
  ASSERT_TRUE(succeeded(file));
  FailureOr<import::ImportedModel> model =
      (*file)->import(import::Samples{kGlobalBatch / param.numMicrobatches, kGlobalBatch});
  ASSERT_TRUE(succeeded(model));
  Recorded recorded = readTrajectory(param.trajectory);
  ASSERT_FALSE(recorded.steps.empty());
  recorded.options.numMicrobatches = param.numMicrobatches;
  ASSERT_TRUE(succeeded(training::buildTraining(*model->module, recorded.options)));

  StepRunner runner(*model->module, model->weights, param.numMicrobatches);
  Arrays data = readSafetensors(context, modelsPath(param.data));
  ASSERT_FALSE(data.empty());
  for (size_t i = 0; i < recorded.steps.size(); ++i) {
    const Recorded::Step &expected = recorded.steps[i];
    FailureOr<StepResult> actual = runner.step(
        samples(data, static_cast<int64_t>(i) * kGlobalBatch, kGlobalBatch),
        expected.learningRate);
    ASSERT_TRUE(succeeded(actual));
    EXPECT_NEAR(actual->loss, expected.loss, param.tolerance.loss * expected.loss)
        << "step " << i + 1;
    EXPECT_NEAR(actual->gradNorm, expected.gradNorm,
                param.tolerance.gradNorm * expected.gradNorm)
        << "step " << i + 1;
  }
  if (!param.finalWeights.empty())
    compareWeights(runner, readSafetensors(context, modelsPath(param.finalWeights)),
                   param.weightTolerance);
}

/// What gtest prints of a failed case.
void PrintTo(const Case &param, std::ostream *os) { *os << param.trajectory; }

std::string nameOf(const ::testing::TestParamInfo<Case> &info) {
  std::string name = info.param.model + "_" + info.param.trajectory + "_" +
                     std::to_string(info.param.numMicrobatches);
  for (char &c : name)
    if (!isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
}

const Case kCases[] = {
    {"mlp.onnx", "mlp.data.safetensors", "mlp.adamw.json", kF32, 1,
     "mlp.adamw.final.safetensors", 5e-5},
    {"mlp.onnx", "mlp.data.safetensors", "mlp.adam.json"},
    {"mlp.onnx", "mlp.data.safetensors", "mlp.sgd.json"},
    {"mlp.onnx", "mlp.data.safetensors", "mlp.nesterov.json"},
    {"mlp.onnx", "mlp.data.safetensors", "mlp.bf16.json", kBF16},
    {"mlp_dyn.onnx", "mlp.data.safetensors", "mlp.sgd.json", kF32, 4},
    // Key biases have no gradient but for rounding, by which Adam divides.
    {"gpt2.onnx", "gpt2.data.safetensors", "gpt2.adamw.json", kF32, 1,
     "gpt2.adamw.final.safetensors", 4e-3},
    {"gpt2.onnx", "gpt2.data.safetensors", "gpt2.adam.json"},
    {"gpt2.onnx", "gpt2.data.safetensors", "gpt2.sgd.json"},
    {"gpt2.onnx", "gpt2.data.safetensors", "gpt2.nesterov.json"},
    {"gpt2.onnx", "gpt2.data.safetensors", "gpt2.clip_cosine.json"},
    {"gpt2.onnx", "gpt2.data.safetensors", "gpt2.bf16.json", kBF16},
    {"gpt2_dyn.onnx", "gpt2.data.safetensors", "gpt2.adamw.json", kF32, 2},
    {"gpt2_mask.onnx", "gpt2_mask.data.safetensors", "gpt2_mask.adamw.json"},
    {"llama.onnx", "llama.data.safetensors", "llama.adamw.json", kF32, 1,
     "llama.adamw.final.safetensors", 5e-5},
    {"llama.onnx", "llama.data.safetensors", "llama.sgd.json"},
    {"llama.onnx", "llama.data.safetensors", "llama.bf16.json", kBF16},
    {"resnet_tiny.onnx", "resnet_tiny.data.safetensors", "resnet_tiny.sgd.json"},
    {"resnet_tiny.onnx", "resnet_tiny.data.safetensors", "resnet_tiny.adamw.json", kF32, 1,
     "resnet_tiny.adamw.final.safetensors", 5e-5},
    {"resnet_tiny.onnx", "resnet_tiny.data.safetensors", "resnet_tiny.bf16.json", kBF16Kinks},
};

INSTANTIATE_TEST_SUITE_P(Models, Trajectory, ::testing::ValuesIn(kCases), nameOf);

} // namespace
