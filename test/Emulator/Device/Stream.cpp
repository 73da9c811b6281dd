#include "Emulator/Device/Stream.h"

#include "Emulator/Device/Capture.h"
#include "Emulator/Device/Device.h"
#include "Emulator/Device/Fault.h"
#include "Emulator/Device/Settings.h"

namespace dtc::emulator {

Timeline &Timeline::get() {
  static Timeline *timeline = new Timeline;
  return *timeline;
}

Stream::Stream(Device &device, int priority)
    : owner(device), urgency(priority), id(Timeline::get().newStream()),
      random(static_cast<unsigned>(settings().seed * 7919 + id)), queue(device.queueOf(id)) {
  owner.add(*this);
}

Stream::~Stream() {
  owner.remove(*this);
  Timeline::get().await(*mark().ticket);
}

void Stream::push(Entry entry) {
  queue->submit([this, entry = std::move(entry)] { execute(entry); });
}

void Stream::submit(Operation operation) {
  if (capture) {
    capture->add(*this, std::move(operation));
    return;
  }
  enqueue(std::move(operation));
}

void Stream::enqueue(Operation operation) {
  push({std::move(operation), Timeline::get().hostClock(), nullptr, nullptr});
}

Mark Stream::mark() {
  Mark mark{std::make_shared<Ticket>()};
  push({std::nullopt, {}, nullptr, mark.ticket});
  return mark;
}

void Stream::wait(const Mark &mark) { push({std::nullopt, {}, mark.ticket, nullptr}); }

void Stream::synchronize() {
  Mark all = mark();
  Timeline::get().await(*all.ticket);
  Timeline::get().joinHost(all.ticket->clock);
  owner.checkHealthy();
}

void Stream::delay() {
  // A quarter of the operations start late, so that a run doesn't always see the same order.
  if (settings().maximumDelay.count() > 0 && random() % 4 == 0)
    std::this_thread::sleep_for(settings().maximumDelay * (random() % 1000) / 1000);
}

void Stream::carryOut(const Operation &operation) {
  auto stamp = std::make_shared<OperationStamp>();
  stamp->name = operation.name;
  stamp->stream = id;
  stamp->time = clock.advance(id);
  stamp->clock = clock;
  if (owner.hasFailed())
    return;
  delay();
  try {
    Accesses accesses = operation.run();
    pretended += operation.pretended;
    owner.history().record(stamp, accesses);
    AccessHistory::ofPinned().record(stamp, {accesses.pinnedReads, accesses.pinnedWrites});
  } catch (const Fault &fault) {
    owner.fail(fault);
  }
}

void Stream::execute(const Entry &entry) {
  clock.join(entry.host);
  if (entry.waitsFor) {
    Timeline::get().await(*entry.waitsFor);
    clock.join(entry.waitsFor->clock);
  }
  if (entry.operation)
    carryOut(*entry.operation);
  if (entry.completes)
    Timeline::get().complete(*entry.completes, clock, pretended);
}

} // namespace dtc::emulator
