// The steps of a rank, of which one is issued while the one before it is carried out.
//
//   host     fill 1 | issue 1 | fill 2 | issue 2 | read 1 | fill 3 | issue 3 | read 2 | ...
//   device            copy in, step 1, copy out    copy in, step 2, copy out  ...
//
// What a step takes is written to one of two places in memory of the host. The compute queue
// copies it to where the functions read it, once the step before is complete, and copies the
// results out at the end. So the device has the next step when it is done with this one.
#pragma once

#include "dtc-rt/Executor.h"

namespace dtc::rt {

class StepPipeline {
public:
  /// Where something that is copied lies in the device's memory.
  struct Entry {
    Address place = nullptr;
    uint64_t bytes = 0;
  };

  static Result<StepPipeline> create(Device &device, Executor &executor, std::vector<Entry> inputs,
                                     std::vector<Entry> results);

  /// Waits until the places that the inputs of the step will be written to are free.
  Status begin(int64_t step);
  /// Writes an input of the step, as Device::write.
  Status write(int64_t step, size_t input, const std::function<void(char *)> &fill);
  Status issue(int64_t step, StepPart part = StepPart::All);
  /// Waits until the step's results have arrived. At most two steps are under way.
  Status await(int64_t step);
  Status read(int64_t step, size_t result, const std::function<void(const char *)> &use) const;

private:
  struct Copy {
    Entry entry;
    uint64_t hostOffset; ///< in a slot
    std::unique_ptr<Operation> operation;
  };
  struct Slot {
    std::unique_ptr<Memory> memory;
    std::unique_ptr<Event> taken, arrived; ///< inputs; results
  };

  StepPipeline(Device &device, Executor &executor) : device(&device), executor(&executor) {}
  Result<std::vector<Copy>> prepare(const std::vector<Entry> &entries, const char *name);
  Address hostPlace(int64_t step, const Copy &copy) const {
    return slotOf(step).memory->base() + copy.hostOffset;
  }
  const Slot &slotOf(int64_t step) const { return slots[static_cast<size_t>(step) % slots.size()]; }

  Device *device;
  Executor *executor;
  std::vector<Copy> inputs, results;
  std::array<Slot, 2> slots;
  uint64_t slotBytes = 0;
};

} // namespace dtc::rt
