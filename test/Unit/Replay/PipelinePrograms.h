// Programs of a pipeline made by hand, one role for each rank of the pipeline, with messages on
// queues of their own. They are what the compiler would write for a small model.
//
// Stage s is chunk c of rank r. Its functions, for a microbatch:
//
//   receive_forward   message -> inbox
//   forward           weight, inbox (or the input) -> kept (or the outbox too)
//   send_forward      outbox -> message
//   receive_backward, backward, send_backward: likewise; gradients are added up
//
// and once a step: clear, update. Tokens order the queues: `arrived` and `consumed` for each
// place of an inbox, `produced` and `departed` for each place of an outbox.
#pragma once

#include "dtc/Replay/ReplayPrograms.h"
#include "dtc/Schedule/Descriptor.h"

#include <memory>
#include <string>
#include <vector>

namespace dtc::replay::test {

namespace fbs = rt::fbs;

struct PipelineShape {
  schedule::ScheduleShape schedule;
  int32_t ranksPerStage = 1;
  int32_t layers = 2; ///< kernels of a forward call; a backward call has twice as many
};

/// Roles that own their programs.
struct Programs {
  std::vector<std::unique_ptr<fbs::ProgramT>> programs;
  std::vector<std::vector<int32_t>> ranks;

  std::vector<Role> roles() const;
  std::string replay() const { return replayPrograms(roles()); }
  fbs::FunctionT &function(size_t role, const std::string &name);
  uint32_t functionIndex(size_t role, const std::string &name) const;
  /// The n-th call of a function in the schedule.
  size_t callIndex(size_t role, const std::string &name, size_t n = 0) const;
};

Programs makePipeline(const PipelineShape &shape);

Programs copy(const Programs &programs);

} // namespace dtc::replay::test
