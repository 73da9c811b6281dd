#include "dtc/Training/Passes.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Training/Train.h"

using namespace mlir;

namespace dtc::training {

namespace {

struct TrainPass : PassWrapper<TrainPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TrainPass)

  TrainPass() = default;
  TrainPass(const TrainPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "dtc-train"; }
  StringRef getDescription() const override { return "builds a training step from @forward"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<graph::GraphDialect>();
  }

  void runOnOperation() override {
    TrainOptions options;
    options.loss = loss;
    options.lossOutput = lossOutput;
    options.ignoreIndex = ignoreIndex;
    options.optimizer = optimizer;
    options.beta1 = beta1;
    options.beta2 = beta2;
    options.eps = eps;
    options.weightDecay = weightDecay;
    options.momentum = momentum;
    options.nesterov = nesterov;
    if (noDecay.hasValue())
      options.noDecay = noDecay;
    if (clipGradNorm.hasValue())
      options.clipGradNorm = clipGradNorm;
    options.precision = precision;
    options.numMicrobatches = microbatches;
    options.adapterRank = adapterRank;
    if (failed(buildTraining(getOperation(), options)))
      signalPassFailure();
  }

  Option<LossKind> loss{
      *this, "loss", llvm::cl::desc("what to minimize"), llvm::cl::init(LossKind::CrossEntropy),
      llvm::cl::values(
          clEnumValN(LossKind::CrossEntropy, "cross_entropy", "integer targets"),
          clEnumValN(LossKind::MeanSquaredError, "mse", "mean squared error"),
          clEnumValN(LossKind::Output, "output", "an output of the model: loss-output"),
          clEnumValN(LossKind::None, "none", "no training"))};
  Option<std::string> lossOutput{*this, "loss-output", llvm::cl::desc("for loss=output")};
  Option<int64_t> ignoreIndex{*this, "ignore-index", llvm::cl::init(-100)};
  Option<OptimizerKind> optimizer{
      *this, "optimizer", llvm::cl::desc("the update rule"),
      llvm::cl::init(OptimizerKind::AdamW),
      llvm::cl::values(clEnumValN(OptimizerKind::Sgd, "sgd", "torch.optim.SGD"),
                       clEnumValN(OptimizerKind::Adam, "adam", "torch.optim.Adam"),
                       clEnumValN(OptimizerKind::AdamW, "adamw", "torch.optim.AdamW"))};
  Option<double> beta1{*this, "beta1", llvm::cl::init(0.9)};
  Option<double> beta2{*this, "beta2", llvm::cl::init(0.999)};
  Option<double> eps{*this, "eps", llvm::cl::init(1e-8)};
  Option<double> weightDecay{*this, "weight-decay", llvm::cl::init(0.01)};
  Option<double> momentum{*this, "momentum", llvm::cl::init(0.0)};
  Option<bool> nesterov{*this, "nesterov", llvm::cl::init(false)};
  Option<std::string> noDecay{*this, "no-decay",
                              llvm::cl::desc("parameters without weight decay")};
  Option<double> clipGradNorm{*this, "clip-grad-norm"};
  Option<Precision> precision{
      *this, "precision", llvm::cl::desc("of the forward and backward pass"),
      llvm::cl::init(Precision::F32),
      llvm::cl::values(clEnumValN(Precision::F32, "fp32", "single"),
                       clEnumValN(Precision::BF16, "bf16", "bf16 with f32 masters"),
                       clEnumValN(Precision::F16, "fp16", "not implemented"))};
  Option<int64_t> microbatches{*this, "microbatches", llvm::cl::init(1)};
  Option<int64_t> adapterRank{*this, "adapter-rank", llvm::cl::desc("of LoRA; 0: none"),
                              llvm::cl::init(0)};
};

} // namespace

void registerTrainingPasses() { PassRegistration<TrainPass>(); }

} // namespace dtc::training
