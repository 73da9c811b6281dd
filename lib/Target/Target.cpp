#include "dtc/Target/Target.h"

#include "mlir/IR/DialectInterface.h"

using namespace mlir;

namespace dtc::target {
namespace {

/// The exec dialect carries the target of its context.
struct TargetInterface : DialectInterface::Base<TargetInterface> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TargetInterface)
  TargetInterface(Dialect *dialect, const Target &target) : Base(dialect), target(target) {}
  const Target &target;
};

struct TargetExtension : DialectExtension<TargetExtension, exec::ExecDialect> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TargetExtension)
  explicit TargetExtension(const Target &target) : target(target) {}
  void apply(MLIRContext *context, exec::ExecDialect *dialect) const override {
    target.loadDialects(*context);
    dialect->addInterface(std::make_unique<TargetInterface>(dialect, target));
  }
  const Target &target;
};

} // namespace

void chooseTarget(DialectRegistry &registry, const Target &target) {
  registry.addExtension(TypeID::get<TargetExtension>(), std::make_unique<TargetExtension>(target));
}

FailureOr<const Target *> targetOf(Operation *op) {
  auto *dialect = op->getContext()->getLoadedDialect<exec::ExecDialect>();
  auto *interface = dialect ? dialect->getRegisteredInterface<TargetInterface>() : nullptr;
  if (!interface)
    return op->emitError("no target was chosen to compile for");
  return &interface->target;
}

bool lacksLibraryCall(ModuleOp module, const Target &target, int64_t threads) {
  // Planning memory has named the call.
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  std::unique_ptr<Workspace> workspace = target.workspace(module, threads);
  auto isLacking = [&](Operation *op) {
    bool isCall = !isa<exec::LaunchOp>(op);
    return WalkResult(isCall && failed(workspace->bytesOf(op)) ? failure() : success());
  };
  return module.walk(isLacking).wasInterrupted();
}

} // namespace dtc::target
