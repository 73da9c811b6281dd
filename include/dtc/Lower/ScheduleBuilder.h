// The order in which a rank calls the functions of a step.
//
// A schedule is a list of (function, microbatch, slot). Functions that run once
// a step (prologue, update) have microbatch 0; a slot is a copy of the memory
// that a microbatch keeps between its calls. Each kind of schedule is one
// function that fills a builder:
//
//   accumulation, 3 microbatches:
//     prologue, clear, loss_and_grads 0, loss_and_grads 1, loss_and_grads 2, update
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtc::lower {

struct Call {
  uint32_t function = 0; ///< index into ScheduleBuilder::functions
  uint32_t microbatch = 0, slot = 0;
  bool operator==(const Call &) const = default;
};

/// What the functions of a step are called for.
enum class Cadence : uint8_t { OncePerStep, OncePerMicrobatch };

struct StepFunction {
  std::string name;
  Cadence cadence = Cadence::OncePerStep;
};

class ScheduleBuilder {
public:
  ScheduleBuilder(std::vector<StepFunction> functions, uint32_t numMicrobatches)
      : functions(std::move(functions)), numMicrobatches(numMicrobatches) {}

  /// Appends a call; false if there is no function of that name.
  bool call(const std::string &function, uint32_t microbatch = 0, uint32_t slot = 0);
  bool has(const std::string &function) const { return find(function) >= 0; }

  const std::vector<StepFunction> &getFunctions() const { return functions; }
  const std::vector<Call> &getCalls() const { return calls; }
  uint32_t getNumMicrobatches() const { return numMicrobatches; }

  /// What is wrong with the schedule: a function called too often or too rarely
  /// for its cadence, a microbatch out of range. Empty when nothing is.
  std::string verify() const;

private:
  int64_t find(const std::string &function) const;

  std::vector<StepFunction> functions;
  uint32_t numMicrobatches;
  std::vector<Call> calls;
};

/// One stage: every once-a-step function up to the first per-microbatch one,
/// then for each microbatch the per-microbatch functions, then the rest; each
/// group in the order in which the builder lists them.
void buildAccumulation(ScheduleBuilder &builder);

} // namespace dtc::lower
