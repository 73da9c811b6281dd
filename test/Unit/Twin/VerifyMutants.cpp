// verify-mutants MOST MICROBATCHES SPLIT FILE: partitions the twin of a planned module (dtc compile
// --emit plan) and compares its ranks with one. It does so with each of the faults that are planted
// into it, of each kind up to MOST. SPLIT: 1 where the backward pass is two calls. Prints a line of
// JSON; exit code 1 where the right program differs or a fault isn't found.
#include "StepMutants.h"

#include "dtc/Interpreter/Step.h"
#include "dtc/Pipelines/Pipelines.h"
#include "dtc/Target/Targets.h"
#include "dtc/Twin/Twin.h"

#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace mlir;
using namespace dtc;
using Json = nlohmann::ordered_json;

namespace {

struct Subject {
  OwningOpRef<ModuleOp> global, local;
  interpreter::StepOptions options;

  /// Empty, or what is wrong with the ranks' program.
  std::string examine(ModuleOp module) {
    std::string error;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      error = diagnostic.str();
      return success();
    });
    auto compared = interpreter::compareStep(*global, module, options);
    if (failed(compared))
      return "refused: " + error;
    if (!compared->unproven.empty())
      return "unproven: " + compared->unproven;
    return compared->firstWrong;
  }
};

Json plantAll(Subject &subject, size_t most) {
  Json planted = Json::object(), missed = Json::array();
  for (const auto &mutant : twin::test::makeStepMutants(*subject.local, most)) {
    OwningOpRef<ModuleOp> changed = twin::test::planted(*subject.local, mutant);
    planted[mutant.kind] = planted.value(mutant.kind, 0) + 1;
    if (subject.examine(*changed).empty())
      missed.push_back(mutant.kind + ": " + mutant.place);
  }
  return {{"planted", planted}, {"missed", missed}};
}

std::string prepare(Subject &subject, ModuleOp planned, bool splitBackward) {
  twin::Twin twin = twin::makeTwin(planned, subject.options.microbatches);
  if (!twin.module)
    return twin.reason;
  subject.options.microbatches = twin.microbatches;
  subject.global = std::move(twin.module);
  subject.local = subject.global->clone();
  pipelines::PartitionPipeline asked;
  asked.splitBackward = splitBackward;
  if (failed(pipelines::run(*subject.local, asked)))
    return "can't be partitioned";
  return subject.examine(*subject.local);
}

DialectRegistry dialects() {
  DialectRegistry registry;
  registry.insert<graph::GraphDialect, dist::DistDialect, arith::ArithDialect, func::FuncDialect,
                  math::MathDialect>();
  graph::registerElementwiseModels(registry);
  target::chooseTarget(registry, *target::find("cpu"));
  return registry;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::cerr << "usage: verify-mutants MOST MICROBATCHES SPLIT FILE\n";
    return 2;
  }
  MLIRContext context(dialects());
  context.loadAllAvailableDialects();
  auto planned = parseSourceFile<ModuleOp>(argv[4], &context);
  if (!planned)
    return 2;
  Subject subject;
  subject.options.microbatches = std::stoll(argv[2]);
  subject.options.ignoreIndex = -100;
  std::string wrong = prepare(subject, *planned, std::stoi(argv[3]) != 0);
  Json line = {{"wrong", wrong}};
  if (wrong.empty())
    line.update(plantAll(subject, std::stoul(argv[1])));
  std::cout << line.dump() << std::endl;
  return wrong.empty() && line["missed"].empty() ? 0 : 1;
}
