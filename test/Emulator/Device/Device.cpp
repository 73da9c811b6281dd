#include "Emulator/Device/Device.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Device/Settings.h"
#include "dtc-cuda/Driver.h"

#include <cstdio>

namespace dtc::emulator {

Device::Device(int ordinal, uint64_t memoryBytes) : number(ordinal), bytes(memoryBytes) {
  for (size_t i = 0; i < settings().hardwareQueues; ++i)
    queues.push_back(std::make_shared<HardwareQueue>());
}

std::shared_ptr<HardwareQueue> Device::queueOf(size_t stream) {
  return queues.empty() ? std::make_shared<HardwareQueue>() : queues[stream % queues.size()];
}

Stream &Device::defaultStream() {
  std::call_once(isNullStreamMade, [&] { nullStream = std::make_unique<Stream>(*this); });
  return *nullStream;
}

void Device::add(Stream &stream) {
  std::lock_guard<std::mutex> lock(mutex);
  streams.push_back(&stream);
}

void Device::remove(Stream &stream) {
  std::lock_guard<std::mutex> lock(mutex);
  std::erase(streams, &stream);
}

void Device::synchronize() {
  std::vector<Mark> marks;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (Stream *stream : streams)
      marks.push_back(stream->mark());
  }
  for (const Mark &mark : marks) {
    Timeline::get().await(*mark.ticket);
    Timeline::get().joinHost(mark.ticket->clock);
  }
}

void Device::free(const std::vector<uint64_t> &addresses) {
  synchronize();
  for (uint64_t address : addresses) {
    Range range = bytes.find(address);
    bytes.release(address);
    accesses.forget(range);
  }
}

void Device::retainContext() {
  std::lock_guard<std::mutex> lock(mutex);
  if (contextHolders == 0)
    context.emplace(bytes).growTo(settings().contextBytes);
  ++contextHolders;
}

void Device::releaseContext() {
  std::lock_guard<std::mutex> lock(mutex);
  if (contextHolders > 0 && --contextHolders == 0)
    context.reset();
}

void Device::fail(const Fault &fault) {
  std::lock_guard<std::mutex> lock(mutex);
  if (failed)
    return;
  faultCode = fault.code;
  faultMessage = fault.what();
  failed = true;
  std::fprintf(stderr, "emulated GPU %d: %s\n", number, fault.what());
}

void Device::checkHealthy() {
  if (!failed)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  throw Fault::reported(faultCode, faultMessage);
}

} // namespace dtc::emulator
