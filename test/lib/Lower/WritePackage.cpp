// `test-write-package` writes the artifact of a module of planned roles: modules
// with exec.ranks in one module, which dtc-plan-memory has seen. Parameters get
// the values -4, ..., 4 over 8 in turn, so that whoever runs it can repeat it.
#include "dtc/Lower/Program.h"
#include "dtc/Package/Package.h"
#include "dtc/Replay/ReplayPrograms.h"
#include "dtc/Target/Target.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace dtc;

namespace {

struct WritePackagePass : PassWrapper<WritePackagePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WritePackagePass)
  WritePackagePass() = default;
  WritePackagePass(const WritePackagePass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "test-write-package"; }
  StringRef getDescription() const override { return "writes the artifact of several roles"; }

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }

  LogicalResult run() {
    auto target = target::targetOf(getOperation());
    if (failed(target))
      return failure();
    auto kernels = (*target)->kernelCompilation(getContext(), {});
    package::PackageInputs inputs;
    std::vector<lower::RoleProgram> programs;
    std::vector<replay::Role> replayed;
    for (auto role : getOperation().getOps<ModuleOp>()) {
      auto built = lower::buildProgram(role);
      if (failed(built))
        return failure();
      for (auto kernel : role.getOps<exec::KernelOp>())
        if (failed(kernels->add(kernel)))
          return failure();
      addWeights(role);
      programs.push_back(std::move(*built));
      inputs.roles.push_back({programs.back().program.get(), programs.back().ranks, role});
      replayed.push_back({programs.back().program.get(), programs.back().ranks});
    }
    if (failed(kernels->close()))
      return failure();
    if (std::string wrong = replay::replayPrograms(replayed); !wrong.empty())
      return getOperation().emitError() << wrong;
    auto code = kernels->finish();
    if (!code)
      return getOperation().emitError() << llvm::toString(code.takeError());
    inputs.path = path;
    inputs.weights = &weights;
    inputs.code = [&]() -> llvm::Expected<std::vector<package::CodeFile>> {
      std::vector<package::CodeFile> files;
      for (const target::CodeFile &file : code->files)
        files.push_back({file.name, std::as_bytes(std::span(file.bytes))});
      return files;
    };
    target::Processor processor = (*target)->processor();
    inputs.about = {{"target", "cpu"},
                    {"processor", {{"arch", processor.arch}, {"features", processor.features}}},
                    {"global_batch", globalBatch.getValue()},
                    {"loss", "none"}};
    return package::writePackage(inputs);
  }

  void addWeights(ModuleOp role) {
    for (auto parameter : role.getOps<graph::ParameterOp>()) {
      auto type = cast<RankedTensorType>(parameter.getFileType());
      auto values = std::make_shared<std::vector<float>>(type.getNumElements());
      for (auto [i, value] : llvm::enumerate(*values))
        value = (static_cast<float>(i % 9) - 4) / 8;
      Weight &weight = weights[parameter.getSymName().str()];
      weight.dtype = "F32";
      weight.shape.assign(type.getShape().begin(), type.getShape().end());
      weight.data = reinterpret_cast<const std::byte *>(values->data());
      weight.size = values->size() * sizeof(float);
      weight.owner = values;
    }
  }

  WeightStore weights;
  Option<std::string> path{*this, "path", llvm::cl::desc("of the artifact")};
  Option<int64_t> globalBatch{*this, "global-batch", llvm::cl::init(1),
                              llvm::cl::desc("samples of a step")};
};

} // namespace

namespace dtc::test {
void registerLowerTestPasses() { PassRegistration<WritePackagePass>(); }
} // namespace dtc::test
