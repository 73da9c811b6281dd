// verify-mutants [--all-of KIND] MOST MICROBATCHES SPLIT FILE [TARGET]: partitions the twin of a
// planned module (dtc compile --emit plan) and compares its ranks with one, also once they are
// kernels. It does so with each of the faults that are planted into it, of each kind up to MOST.
// SPLIT: 1 where the backward pass is two calls.
//
// What isn't found is planted into the program itself, with the sizes that the twin has made small.
// There three draws say whether it changes a result. What doesn't is no fault: a term that is
// always zero, or two values that are the same. Nor is what MLIR's verifier refuses there. Kernels
// of other sizes are others: there three draws of the twin say it.
//
// With TARGET the program itself is formed for it, and faults are planted into its kernels and
// library calls alone. A twin is too small for parts that a library reads.
//
// With --all-of all places of one kind are tried, until a fault is planted there.
//
// Prints a line of JSON, with all places of each kind and both programs. Exit code 1 where the
// right program differs or a fault isn't found.
#include "StepMutants.h"

#include "dtc/Interpreter/InlineKernels.h"
#include "dtc/Interpreter/Step.h"
#include "dtc/Kernels/KernelFormation.h"
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
    auto inlined = interpreter::inlineKernels(module);
    if (failed(inlined))
      return kRefused + error;
    auto compared = interpreter::compareStep(*global, **inlined, options);
    if (failed(compared))
      return kRefused + error;
    if (!compared->unproven.empty())
      return kUnproven + compared->unproven;
    return compared->firstWrong;
  }
};

/// Makes the ranks' program. Empty, or what is wrong with it.
std::string partitionSubject(Subject &subject, bool splitBackward) {
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
  return partitionSubject(subject, splitBackward);
}

OwningOpRef<ModuleOp> withoutParameters(ModuleOp planned) {
  OwningOpRef<ModuleOp> copy = planned.clone();
  for (auto parameter : llvm::make_early_inc_range(copy->getOps<graph::ParameterOp>()))
    parameter.erase(); // a twin has none
  return copy;
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
      subject.global = withoutParameters(planned);
      wrong = partitionSubject(subject, splitBackward);
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

/// Makes kernels of the ranks' program. Empty, or what is wrong with it then.
std::string form(const Subject &subject, Subject &formed) {
  formed.options = subject.options;
  formed.global = ModuleOp(*subject.global).clone();
  formed.local = ModuleOp(*subject.local).clone();
  auto target = target::targetOf(*formed.local);
  if (failed(target) || failed(kernels::formKernels(*formed.local, **target)))
    return "can't be formed into kernels";
  std::string found = formed.examine(*formed.local);
  return found.empty() ? found : "as kernels: " + found;
}

/// What three further draws show of a fault that the first one doesn't.
std::string changeByOtherDraws(Subject &subject, ModuleOp changed) {
  const uint64_t seed = subject.options.seed;
  std::string found;
  for (uint64_t i = 1; i <= 3 && found.empty(); ++i) {
    subject.options.seed = 100 * i + seed;
    found = subject.examine(changed);
  }
  subject.options.seed = seed;
  return found;
}

struct Outcome {
  size_t most;
  std::string only; ///< all faults of this kind; empty: some of each
  Json places = Json::object(), planted = Json::object(), missed = Json::array(),
       same = Json::array(), refused = Json::array();

  /// `isChange`: what a fault changes that isn't seen; empty: nothing.
  void plant(const Subject &subject, std::vector<twin::test::StepMutant> all,
             llvm::function_ref<std::string(const twin::test::StepMutant &, ModuleOp)> isChange) {
    for (const auto &mutant : all)
      places[mutant.kind] = places.value(mutant.kind, 0) + 1;
    for (const auto &mutant : chosen(std::move(all))) {
      if (!only.empty() && !planted.empty())
        return;
      OwningOpRef<ModuleOp> changed = twin::test::planted(*subject.local, mutant);
      std::string place = mutant.kind + ": " + mutant.place;
      const std::string found = subject.examine(*changed);
      if (found.starts_with(kRefused))
        refused.push_back(place + " (" + found + ")");
      else if (!found.empty() && !found.starts_with(kUnproven))
        planted[mutant.kind] = planted.value(mutant.kind, 0) + 1;
      else if (std::string change = isChange(mutant, *changed); change.empty())
        same.push_back(place);
      else
        missed.push_back(place + " (" + change + ")");
    }
  }

  Json json() const {
    return {{"places", places},
            {"planted", planted},
            {"same", same},
            {"missed", missed},
            {"refused", refused}};
  }

private:
  std::vector<twin::test::StepMutant> chosen(std::vector<twin::test::StepMutant> all) const {
    if (only.empty())
      return twin::test::thinned(std::move(all), most);
    std::erase_if(all, [&](const auto &mutant) { return mutant.kind != only; });
    return all;
  }
};

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

DialectRegistry dialects(const target::Target &target) {
  DialectRegistry registry;
  registry.insert<graph::GraphDialect, dist::DistDialect, arith::ArithDialect, func::FuncDialect,
                  math::MathDialect, exec::ExecDialect>();
  graph::registerElementwiseModels(registry);
  target::chooseTarget(registry, target);
  return registry;
}

} // namespace

int main(int argc, char **argv) {
  std::string only;
  if (argc > 2 && std::string(argv[1]) == "--all-of") {
    only = argv[2];
    argc -= 2;
    argv += 2;
  }
  const target::Target *target = argc < 5 ? nullptr : target::find(argc > 5 ? argv[5] : "cpu");
  if (!target) {
    std::cerr << "usage: verify-mutants [--all-of KIND] MOST MICROBATCHES SPLIT FILE [TARGET]\n";
    return 2;
  }
  MLIRContext context(dialects(*target));
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
  const bool isOfTarget = argc > 5;
  if (isOfTarget)
    subject.global = withoutParameters(*planned);
  std::string wrong = isOfTarget ? partitionSubject(subject, splitBackward)
                                 : prepareTwin(subject, *planned, splitBackward);
  Subject formed;
  if (wrong.empty())
    wrong = form(subject, formed);
  Json line = {{"wrong", wrong}};
  if (wrong.empty()) {
    Outcome outcome{std::stoul(argv[1]), only};
    if (!isOfTarget)
      outcome.plant(
          subject, twin::test::makeStepMutants(*subject.local),
          [&](const auto &mutant, ModuleOp) { return original.changeBy(mutant, *subject.local); });
    outcome.plant(
        formed, twin::test::makeKernelMutants(*formed.local),
        [&](const auto &, ModuleOp changed) { return changeByOtherDraws(formed, changed); });
    line.update(outcome.json());
    line["step"] = textOf(*subject.local);
    line["formed"] = textOf(*formed.local);
  }
  std::cout << line.dump() << std::endl;
  return wrong.empty() && line["missed"].empty() ? 0 : 1;
}
