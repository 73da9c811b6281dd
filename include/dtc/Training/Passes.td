#ifndef DTC_TRAINING_PASSES_TD
#define DTC_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildTraining : Pass<"dtc-train", "::mlir::ModuleOp"> {
  let summary = "build the functions of a training step from @forward";
  let description = [{
    Appends the loss to the forward graph, differentiates it and writes the optimizer's
    update (dtc/Training/Train.h says what the functions take and give). Forward ops are
    numbered by dtc.id; backward ops say by dtc.backward which forward op they belong to.

        func.func @forward(%w, %x) -> %logits
      becomes for loss=cross_entropy
        func.func @prologue(%target) -> %count
        func.func @loss_and_grads(%w, %x, %target, %count) -> (%loss, %dw)
        func.func @update(%w, %state, %dw, %loss, %lr, %step, %count)
                       -> (%w, %state, %grad_norm, %loss, %non_finite)
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect"];
  let options = [
    Option<"loss", "loss", "::dtc::training::LossKind",
           "::dtc::training::LossKind::CrossEntropy", "what to minimize",
           [{::llvm::cl::values(
               clEnumValN(::dtc::training::LossKind::CrossEntropy, "cross_entropy", "integer targets"),
               clEnumValN(::dtc::training::LossKind::MeanSquaredError, "mse", "mean squared error"),
               clEnumValN(::dtc::training::LossKind::Output, "output", "an output of the model: loss-output"),
               clEnumValN(::dtc::training::LossKind::None, "none", "no training"))}]>,
    Option<"lossOutput", "loss-output", "std::string", "", "name of the output for loss=output">,
    Option<"ignoreIndex", "ignore-index", "int64_t", "-100", "target of elements that don't count">,
    Option<"optimizer", "optimizer", "::dtc::training::OptimizerKind",
           "::dtc::training::OptimizerKind::AdamW", "the update rule",
           [{::llvm::cl::values(
               clEnumValN(::dtc::training::OptimizerKind::Sgd, "sgd", "torch.optim.SGD"),
               clEnumValN(::dtc::training::OptimizerKind::Adam, "adam", "torch.optim.Adam"),
               clEnumValN(::dtc::training::OptimizerKind::AdamW, "adamw", "torch.optim.AdamW"))}]>,
    Option<"beta1", "beta1", "double", "0.9", "Adam's decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.999", "Adam's decay of the second moment">,
    Option<"eps", "eps", "double", "1e-8", "Adam's epsilon">,
    Option<"weightDecay", "weight-decay", "double", "0.01", "decay of weights a step">,
    Option<"momentum", "momentum", "double", "0.0", "SGD's momentum">,
    Option<"nesterov", "nesterov", "bool", "false", "Nesterov momentum">,
    Option<"noDecay", "no-decay", "std::string", "",
           "regular expression of parameters without weight decay; empty: none">,
    Option<"clipGradNorm", "clip-grad-norm", "double",
           "std::numeric_limits<double>::infinity()", "largest norm of the gradient">,
    Option<"precision", "precision", "::dtc::training::Precision",
           "::dtc::training::Precision::F32", "of the forward and backward pass",
           [{::llvm::cl::values(
               clEnumValN(::dtc::training::Precision::F32, "fp32", "single"),
               clEnumValN(::dtc::training::Precision::BF16, "bf16", "bf16 with f32 masters"),
               clEnumValN(::dtc::training::Precision::F16, "fp16", "fp16 with f32 masters and a scaled loss"),
               clEnumValN(::dtc::training::Precision::BF16True, "bf16-true", "bf16 throughout, without masters"))}]>,
    Option<"lossScale", "loss-scale", "double", "65536.0", "what fp16 multiplies the loss by at first">,
    Option<"lossScaleGrowthInterval", "loss-scale-growth-interval", "int64_t", "2000",
           "clean steps after which fp16 doubles it">,
    Option<"microbatches", "microbatches", "int64_t", "1", "microbatches of a step">,
    Option<"labelSmoothing", "label-smoothing", "double", "0.0",
           "share of cross entropy's target that is spread over all classes">,
    Option<"classMultiple", "class-multiple", "int64_t", "1",
           "classes of cross entropy are padded to a multiple">,
    Option<"hiddenWays", "hidden-ways", "int64_t", "1",
           "features between two products are padded where it doesn't divide them">,
    Option<"hiddenMultiple", "hidden-multiple", "int64_t", "1", "to a multiple of this">,
    Option<"hiddenIsPriced", "hidden-is-priced", "bool", "false", "up to as many as there are are added">,
    Option<"hiddenOfSome", "hidden-of-some", "bool", "false", "pad features of hidden-among alone">,
    ListOption<"hiddenAmong", "hidden-among", "std::string", "DIMENSION:NAME of parameters">,
    ListOption<"classWeights", "class-weights", "double", "of cross entropy; none: all 1">,
    Option<"adapterRank", "adapter-rank", "int64_t", "0", "rank of LoRA adapters; 0: none">,
    Option<"adapterAlpha", "adapter-alpha", "double", "0.0",
           "adapters are scaled by alpha / rank; 0: by 1">,
    Option<"adapterTargets", "adapter-targets", "std::string", "",
           "regular expression of the weights to adapt; empty: all">];
}

#endif // DTC_TRAINING_PASSES_TD
