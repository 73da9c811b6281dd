// verify-mutants MOST MICROBATCHES SPLIT FILE: partitions the twin of a planned module (dtc compile
// --emit plan) and compares its ranks with one. It does so with each of the faults that are planted
// into it, of each kind up to MOST. SPLIT: 1 where the backward pass is two calls.
//
// What isn't found is planted into the program itself, with the sizes that the twin has made small.
// There three draws say whether it changes a result. What doesn't is no fault: a term that is
// always zero, or two values that are the same. Nor is what MLIR's verifier refuses there.
//
// Prints a line of JSON; exit code 1 where the right program differs or a fault isn't found.
#include "StepMutants.h"

#include "dtc/Interpreter/Step.h"
#include "dtc/Pipelines/Pipelines.h"
#include "dtc/Target/Targets.h"
#include "dtc/Twin/Twin.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace mlir;
using namespace dtc;
using Json = nlohmann::ordered_json;

namespace {

// What begins so isn't a difference. Nobody is told of a step that isn't proven.
const std::string kRefused = "refused: ", kUnproven = "unproven: ";

struct Subject {
  OwningOpRef<ModuleOp> global, local;
  interpreter::StepOptions options;

  /// Empty, or what is wrong with the ranks' program.
  std::string examine(ModuleOp module) const {
    std::string error;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      error = diagnostic.str();
      return success();
    });
    auto compared = interpreter::compareStep(*global, module, options);
    if (failed(compared))
      return kRefused + error;
    if (!compared->unproven.empty())
      return kUnproven + compared->unproven;
    return compared->firstWrong;
  }
};

/// Makes the ranks' program. Empty, or what is wrong with it.
std::string partition(Subject &subject, bool splitBackward) {
  subject.local = subject.global->clone();
  pipelines::PartitionPipeline asked;
  asked.splitBackward = splitBackward;
  if (failed(pipelines::run(*subject.local, asked)))
    return "can't be partitioned";
  return subject.examine(*subject.local);
}

std::string prepareTwin(Subject &subject, ModuleOp planned, bool splitBackward) {
  twin::Twin twin = twin::makeTwin(planned, subject.options.microbatches);
  if (!twin.module)
    return twin.reason;
  subject.options.microbatches = twin.microbatches;
  subject.global = std::move(twin.module);
  return partition(subject, splitBackward);
}

/// The program with its own sizes, which is made when it is first asked for.
class Original {
public:
  Original(ModuleOp planned, int64_t microbatches, bool splitBackward)
      : planned(planned), splitBackward(splitBackward) {
    subject.options.microbatches = microbatches;
    subject.options.ignoreIndex = -100;
  }

  /// Whether a fault in the twin changes nothing here. Empty, or what it changes.
  std::string changeBy(const twin::test::StepMutant &mutant, ModuleOp twin) {
    if (!subject.local) {
      subject.global = planned.clone();
      for (auto parameter :
           llvm::make_early_inc_range(subject.global->getOps<graph::ParameterOp>()))
        parameter.erase(); // a twin has none
      wrong = partition(subject, splitBackward);
    }
    if (!wrong.empty())
      return wrong;
    std::vector<unsigned> ops = twin::test::counterparts(twin, mutant.op, *subject.local);
    std::string change = ops.empty() ? "the step has no such op" : "";
    for (size_t i = 0; i < ops.size() && change.empty(); ++i) {
      twin::test::StepMutant here = mutant;
      here.op = ops[i];
      change = examine(here);
    }
    return change;
  }

private:
  /// Tensors of one type in the twin may have two here. Then no program has this fault.
  static bool isValid(ModuleOp module) {
    ScopedDiagnosticHandler handler(module.getContext(), [](Diagnostic &) { return success(); });
    return succeeded(verify(module));
  }

  std::string examine(const twin::test::StepMutant &mutant) {
    OwningOpRef<ModuleOp> changed = twin::test::planted(*subject.local, mutant);
    if (!isValid(*changed))
      return "";
    for (subject.options.seed = 101; subject.options.seed <= 301; subject.options.seed += 100)
      if (std::string found = subject.examine(*changed); !found.empty())
        return found;
    return "";
  }

  ModuleOp planned;
  bool splitBackward;
  Subject subject;
  std::string wrong;
};

Json plantAll(const Subject &subject, Original &original, size_t most) {
  Json planted = Json::object(), missed = Json::array(), same = Json::array(),
       refused = Json::array();
  for (const auto &mutant : twin::test::makeStepMutants(*subject.local, most)) {
    OwningOpRef<ModuleOp> changed = twin::test::planted(*subject.local, mutant);
    std::string place = mutant.kind + ": " + mutant.place;
    const std::string found = subject.examine(*changed);
    if (found.starts_with(kRefused))
      refused.push_back(place + " (" + found + ")");
    else if (!found.empty() && !found.starts_with(kUnproven))
      planted[mutant.kind] = planted.value(mutant.kind, 0) + 1;
    else if (std::string change = original.changeBy(mutant, *subject.local); change.empty())
      same.push_back(place);
    else
      missed.push_back(place + " (" + change + ")");
  }
  return {{"planted", planted}, {"same", same}, {"missed", missed}, {"refused", refused}};
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
  const int64_t microbatches = std::stoll(argv[2]);
  const bool splitBackward = std::stoi(argv[3]) != 0;
  Subject subject;
  subject.options.microbatches = microbatches;
  subject.options.ignoreIndex = -100;
  Original original(*planned, microbatches, splitBackward);
  std::string wrong = prepareTwin(subject, *planned, splitBackward);
  Json line = {{"wrong", wrong}};
  if (wrong.empty())
    line.update(plantAll(subject, original, std::stoul(argv[1])));
  std::cout << line.dump() << std::endl;
  return wrong.empty() && line["missed"].empty() ? 0 : 1;
}
