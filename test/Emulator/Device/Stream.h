// A stream: its operations are carried out one after another (HardwareQueue.h).
//
// Everything that the driver or a library does to a device is an Operation that is put on a stream.
// While the stream is being captured, the operation becomes a node of a graph instead.
#pragma once

#include "Emulator/Device/AccessHistory.h"
#include "Emulator/Device/HardwareQueue.h"
#include "Emulator/Device/Timeline.h"

#include <functional>
#include <optional>
#include <random>

namespace dtc::emulator {

class Device;
class Capture;

struct Operation {
  std::string name;
  /// Carries it out on a worker's thread, and says what it has read and written. Throws a Fault.
  std::function<Accesses()> run;
  /// How much longer than it takes here events say that it took.
  std::chrono::nanoseconds pretended{0};
};

class Stream {
public:
  static constexpr const char *kWhat = "stream";

  explicit Stream(Device &device, int priority = 0);
  ~Stream();
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  /// Puts an operation at the stream's end, or into the graph that is being captured.
  void submit(Operation operation);

  /// The moment when everything put on the stream so far is over.
  Mark mark();

  /// Whatever is put on the stream from now on starts after a mark.
  void wait(const Mark &mark);

  void synchronize();

  /// Puts an operation of a graph onto the stream, whether or not it is being captured.
  void enqueue(Operation operation);

  Device &device() { return owner; }
  int priority() const { return urgency; }

  /// The graph that is being captured from this stream, or null.
  std::shared_ptr<Capture> capture;

private:
  struct Entry {
    std::optional<Operation> operation; // none for a mark or a wait
    VectorClock host;                   // what the host had waited for
    std::shared_ptr<Ticket> waitsFor, completes;
  };

  void push(Entry entry);
  void execute(const Entry &entry);
  void carryOut(const Operation &operation);
  void delay();

  Device &owner;
  int urgency;
  size_t id;
  VectorClock clock;                     // the queue's thread alone uses it, and what follows
  std::chrono::nanoseconds pretended{0}; // of all operations so far
  std::minstd_rand random;
  std::shared_ptr<HardwareQueue> queue;
};

} // namespace dtc::emulator
