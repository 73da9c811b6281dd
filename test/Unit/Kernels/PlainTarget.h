// A target of which tests say what it answers.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Target/Target.h"

namespace dtc::test {

/// Runs one element at a time, has a library's softmax, and compiles nothing.
struct PlainTarget : target::Target {
  llvm::StringRef name() const override { return "plain"; }
  target::Processor processor() const override { return {"plain", {}}; }
  std::vector<std::string> architectures() const override { return {}; }
  void loadDialects(mlir::MLIRContext &) const override {}
  bool staysWhole(mlir::Operation *op) const override { return mlir::isa<graph::SoftmaxOp>(op); }
  bool multiplies(mlir::Type) const override { return true; }
  bool hasWideConvolutions() const override { return true; }
  bool hasUnevenPadding() const override { return true; }
  bool accumulatesConvolutions() const override { return false; }
  int64_t attentionAlignment() const override { return 0; }
  sharding::AttentionWorkspace attentionWorkspace(mlir::Operation *) const override { return {}; }
  target::MatmulLimits matmulLimits() const override { return {productRank, epilogues}; }
  target::KernelLimits kernelLimits() const override { return {kernelOps, anyExtent}; }
  mlir::FailureOr<target::KernelShape> planKernel(mlir::Block &body) const override {
    ++planned;
    auto result = mlir::cast<mlir::RankedTensorType>(body.getTerminator()->getOperand(0).getType());
    return target::KernelShape{result.getNumElements(), 8, {}};
  }
  mlir::LogicalResult checkElementTypes(mlir::ModuleOp) const override { return mlir::success(); }
  std::unique_ptr<target::Workspace> workspace(mlir::ModuleOp, int64_t) const override {
    return nullptr;
  }
  std::unique_ptr<target::KernelCompilation>
  kernelCompilation(mlir::MLIRContext &, const target::CodeOptions &) const override {
    return nullptr;
  }

  size_t kernelOps = 100, productRank = 5;
  bool anyExtent = true, epilogues = false;
  mutable int planned = 0;
};

} // namespace dtc::test
