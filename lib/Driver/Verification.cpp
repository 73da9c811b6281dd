#include "Verification.h"

#include "dtc/Interpreter/InlineKernels.h"
#include "dtc/Kernels/KernelFormation.h"
#include "dtc/Report/Artifact.h"
#include "dtc/Twin/Twin.h"

#include <algorithm>

using namespace mlir;

namespace dtc::driver {

/// Whether the step itself is interpreted in at most a few minutes.
static bool isSmall(const Planned &planned) {
  constexpr double kMostFlops = 2e11, kMostElements = 5e8;
  double flops = 0, elements = 0;
  for (const plan::Op &op : planned.problem.ops) {
    flops += op.flops;
    for (plan::ValueId result : op.results)
      elements += double(planned.problem.values[result].elements());
    // A grouped product is taken apart: each row's weights, the row as often, and their products.
    if (op.isGroupedProduct())
      elements += 3 * op.flops / 2;
  }
  auto calls = double(std::min<int64_t>(planned.batch.numMicrobatches, 2));
  return flops * calls <= kMostFlops && elements * calls <= kMostElements;
}

/// Runs the passes of the phase on a twin. Their errors are about the twin, not about the plan.
static bool partitionTwin(ModuleOp module, pipelines::PartitionPipeline asked, double shrinkage,
                          std::string &reason) {
  auto bytes = static_cast<int64_t>(double(asked.options.bucketBytes) * shrinkage);
  asked.options.bucketBytes = std::max<int64_t>(bytes, 1); // as many buckets as there will be
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (reason.empty())
      reason = diagnostic.str();
    return success();
  });
  return succeeded(pipelines::run(module, asked));
}

Outcome<Verification> Verification::prepare(const Options &options, Planned &planned,
                                            const pipelines::PartitionPipeline &asked) {
  constexpr double kMostSeconds = 10, kMostSecondsAsked = 300;
  Verification result;
  const bool isAsked = result.isAsked = options.verify.value_or(false);
  if (!options.verify.value_or(options.until == Phase::End))
    return result;
  if (options.train.loss == training::LossKind::CrossEntropy)
    result.step.ignoreIndex = options.train.ignoreIndex;
  result.step.microbatches = planned.batch.numMicrobatches;
  const bool severalMeshes = !planned.search.plan.degrees.groups.empty();
  if ((isAsked || severalMeshes) && isSmall(planned)) {
    double seconds = interpreter::estimatedSeconds(planned.module(), result.step);
    if (isAsked || seconds <= kMostSeconds) {
      result.global = planned.module().clone();
      return result;
    }
  }
  int64_t headMultiple = 1;
  if (isAsked) { // kernels and calls are compared, too
    auto target = target::targetOf(planned.module());
    if (failed(target))
      return ErrorCategory::Failed;
    headMultiple = std::max<int64_t>(headMultiple, (*target)->attentionAlignment());
  }
  twin::Twin twin = twin::makeTwin(planned.module(), planned.batch.numMicrobatches, headMultiple);
  result.reason = twin.reason;
  if (twin.module) {
    result.step.microbatches = twin.microbatches;
    double seconds = interpreter::estimatedSeconds(*twin.module, result.step);
    result.local = twin.module->clone();
    if (seconds > (isAsked ? kMostSecondsAsked : kMostSeconds))
      result.reason = "a twin with small dimensions takes too long: some " +
                      std::to_string(static_cast<int64_t>(seconds)) + " s";
    else if (partitionTwin(*result.local, asked, twin.shrinkage, result.reason))
      result.global = std::move(twin.module);
    result.mesh = twin.mesh;
  }
  if (isAsked && !result.global)
    if (auto refused = result.unproven(result.reason); !refused)
      return refused.category();
  return result;
}

/// Who asked for a proof gets an error where there is none.
Outcome<std::string> Verification::unproven(const std::string &why) const {
  if (isAsked)
    return fail({"--verify: can't verify this plan: " + why, ErrorCategory::Usage});
  return "not verified: " + why;
}

Outcome<std::string> Verification::compare(ModuleOp module, bool isOfKernels) const {
  auto compared = interpreter::compareStep(*global, module, step);
  if (failed(compared))
    return ErrorCategory::Failed;
  if (!compared->unproven.empty())
    return unproven(compared->unproven);
  report::StepVerification found{compared->ranks,      compared->tensors,
                                 compared->worst,      compared->worstTensor,
                                 compared->firstWrong, mesh,
                                 isOfKernels};
  if (!compared->isEqual())
    return fail({report::differenceText(found), ErrorCategory::Failed});
  return report::verifiedText(found);
}

/// The same program as kernels and library calls, whose bodies are interpreted. A twin may have
/// sizes that no kernel has: then its partitioned program alone is `verified`.
Outcome<std::string> Verification::compareKernels(ModuleOp partitioned,
                                                  const std::string &verified) const {
  OwningOpRef<ModuleOp> formed = partitioned.clone();
  auto target = target::targetOf(partitioned);
  if (failed(target))
    return ErrorCategory::Failed;
  std::string why;
  {
    ScopedDiagnosticHandler handler(partitioned.getContext(), [&](Diagnostic &diagnostic) {
      if (why.empty())
        why = diagnostic.str();
      return success();
    });
    if (failed(kernels::formKernels(*formed, **target)))
      return verified + ", not as kernels: " + why;
  }
  auto inlined = interpreter::inlineKernels(*formed);
  if (failed(inlined))
    return ErrorCategory::Failed;
  auto found = compare(**inlined, /*isOfKernels=*/true);
  return found ? verified : found;
}

Outcome<std::string> Verification::finish(ModuleOp partitioned) {
  if (global) {
    ModuleOp module = local ? *local : partitioned;
    auto found = compare(module);
    return found && isAsked ? compareKernels(module, *found) : found;
  }
  return reason.empty() ? Outcome<std::string>(std::string()) : unproven(reason);
}

} // namespace dtc::driver
