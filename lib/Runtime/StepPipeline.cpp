#include "StepPipeline.h"

namespace dtc::rt {

Result<StepPipeline> StepPipeline::create(Device &device, Executor &executor,
                                          std::vector<Entry> inputs, std::vector<Entry> results) {
  StepPipeline made(device, executor);
  for (auto [entries, copies, name] : {std::tuple(&inputs, &made.inputs, "input"),
                                       std::tuple(&results, &made.results, "result")}) {
    Result<std::vector<Copy>> prepared = made.prepare(*entries, name);
    if (!prepared)
      return prepared.status();
    *copies = std::move(*prepared);
  }
  for (Slot &slot : made.slots) {
    auto memory = device.allocate(Space::Host, made.slotBytes);
    if (!memory)
      return memory.status();
    slot = {std::move(*memory), device.createEvent(), device.createEvent()};
  }
  return made;
}

Result<std::vector<StepPipeline::Copy>> StepPipeline::prepare(const std::vector<Entry> &entries,
                                                              const char *name) {
  constexpr uint64_t kAlignment = 64;
  std::vector<Copy> copies;
  for (const Entry &entry : entries) {
    auto operation = device->prepare(executor->computeQueue(), CopySpec{entry.bytes}, name);
    if (!operation)
      return operation.status();
    copies.push_back({entry, slotBytes, std::move(*operation)});
    slotBytes += (entry.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return copies;
}

Status StepPipeline::begin(int64_t step) { return device->await(*slotOf(step).taken); }

Status StepPipeline::write(int64_t step, size_t input, const std::function<void(char *)> &fill) {
  const Copy &copy = inputs[input];
  return device->write(hostPlace(step, copy), copy.entry.bytes, fill);
}

Status StepPipeline::issue(int64_t step, StepPart part) {
  Queue &queue = executor->computeQueue();
  for (const Copy &copy : inputs) {
    Address addresses[] = {hostPlace(step, copy), copy.entry.place};
    if (Status status = copy.operation->issue(addresses); !status.isOk())
      return status;
  }
  queue.signal(*slotOf(step).taken);
  if (Status status = executor->issueStep(part); !status.isOk())
    return status;
  for (const Copy &copy : results) {
    Address addresses[] = {copy.entry.place, hostPlace(step, copy)};
    if (Status status = copy.operation->issue(addresses); !status.isOk())
      return status;
  }
  queue.signal(*slotOf(step).arrived);
  return Status::ok();
}

Status StepPipeline::await(int64_t step) { return device->await(*slotOf(step).arrived); }

Status StepPipeline::read(int64_t step, size_t result,
                          const std::function<void(const char *)> &use) const {
  const Copy &copy = results[result];
  return device->read(hostPlace(step, copy), copy.entry.bytes, use);
}

} // namespace dtc::rt
