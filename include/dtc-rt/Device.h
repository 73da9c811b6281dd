// What a rank computes with. The executor knows a target through this interface
// alone; the CPU is one device (CPU/CpuPlatform.h).
//
// Work is issued to queues. A queue carries out its own operations in the order of issue. Where it
// is told to it waits for another queue, as CUDA's streams do:
//
//   product->issue(addresses);        compute: makes a gradient
//   compute.signal(ready);
//   collective.wait(ready);           collective: reduces it meanwhile
//   reduction->issue(addresses);
//   collective.signal(reduced);
//   next->issue(addresses);           compute: goes on with something else
//   compute.wait(reduced);
//   update->issue(addresses);
//
// Issuing never waits for another rank where a device has more than one queue: ranks
// may issue receives before sends. Operations that wait for another rank
// do so for at most the communicator's time limit, and end when the run is aborted.
//
// A device belongs to one rank. All calls are made on the rank's thread.
#pragma once

#include "dtc-rt/DeviceOverhead.h"
#include "dtc-rt/Operations.h"

#include <functional>
#include <memory>
#include <optional>

namespace dtc::rt {

class RankProfile;

/// A place in a device's memory. Only the device may look at what is there.
using Address = char *;

using fbs::QueueKind;
using fbs::Space;

struct QueueSpec {
  std::string name; ///< collectives meet those of queues of the same name on other ranks
  QueueKind kind = QueueKind::Compute;
};

/// Memory that is freed with the object.
class Memory {
public:
  virtual ~Memory() = default;
  virtual Address base() const = 0;
  virtual uint64_t size() const = 0;
};

/// A point in the work of a queue that others can wait for.
class Event {
public:
  virtual ~Event() = default;
};

class Queue {
public:
  virtual ~Queue() = default;
  /// The event has happened when all that was issued before this is done.
  virtual void signal(Event &event) = 0;
  /// What is issued after this waits for the signal of the event that was issued
  /// last; for nothing where none was issued yet.
  virtual void wait(Event &event) = 0;
  /// Returns when all that was issued is done, with the device's status.
  virtual Status synchronize() = 0;
};

/// Prepared for one queue of one device.
class Operation {
public:
  virtual ~Operation() = default;
  /// Addresses as the spec says.
  virtual Status issue(std::span<const Address> addresses) = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// Zeros, aligned for every operation.
  virtual Result<std::unique_ptr<Memory>> allocate(Space space, uint64_t bytes) = 0;
  /// Calls `fill` with memory of the host, all of which it must write; the bytes
  /// then lie at `target`. Nothing that was issued may be using them.
  virtual Status write(Address target, uint64_t bytes,
                       const std::function<void(char *)> &fill) = 0;
  /// Calls `use` with what lies at `source`, as memory of the host.
  virtual Status read(Address source, uint64_t bytes,
                      const std::function<void(const char *)> &use) = 0;

  /// Whether a step is issued long before it is done, so that reading its results at once would
  /// leave the device idle. They are then read when the next step is under way.
  virtual bool isFarBehind() const { return false; }

  /// All queues of the device, made together and once.
  virtual Result<std::vector<std::unique_ptr<Queue>>>
  createQueues(std::span<const QueueSpec> specs) = 0;
  virtual std::unique_ptr<Event> createEvent() = 0;
  /// Returns when the signal of the event that was issued last has happened, at once where none
  /// was issued; with the device's status.
  virtual Status await(Event &event) = 0;
  /// `name` is said in errors. Groups of collectives become known here, in the same order on all of
  /// their ranks. A rank prepares all before it issues anything. The first collective or message of
  /// a group may wait until all of its ranks have prepared one.
  virtual Result<std::unique_ptr<Operation>> prepare(Queue &queue, const OperationSpec &spec,
                                                     const std::string &name) = 0;

  /// Called once on all ranks of the world, when each has prepared all of its operations and issued
  /// none. The ranks may meet here, to make communicators or to choose the same algorithms.
  virtual Status finishPreparing() { return Status::ok(); }

  /// What `issue` issues, as one operation without addresses that does all of it whenever it is
  /// issued. It must begin and end on `queue`: other queues wait for it first, and it for them in
  /// the end. Nothing is done meanwhile. Null where the device can't.
  virtual Result<std::unique_ptr<Operation>> record(Queue &queue,
                                                    const std::function<Status()> &issue) {
    return std::unique_ptr<Operation>();
  }

  /// Not ok once an operation has failed or the run was aborted: nothing more is done.
  virtual Status status() const = 0;

  /// By the rank's thread. Nothing where the device's memory is the host's.
  virtual std::optional<DeviceOverhead> overhead() const { return std::nullopt; }
};

struct DeviceOptions {
  int threads = 1;       ///< of the rank, where kernels use processors
  std::vector<int> cpus; ///< that the rank is kept on; empty: any
  /// The number of the rank's process on this machine; nothing where ranks are threads of one.
  std::optional<int> localProcess = std::nullopt;
  bool autotunes = false;         ///< times algorithms of libraries, and keeps which is the fastest
  RankProfile *profile = nullptr; ///< where the device notes what it does; outlives it
};

/// A file of the artifact's kernels: "kernels.so", "sm_90/rows_0.cubin".
struct CodeFile {
  std::string name;
  std::span<const char> bytes;
};

/// Makes the devices of the ranks in this process.
class Platform {
public:
  virtual ~Platform() = default;
  /// The artifact's kernels, for all devices that are made afterwards. The bytes outlive the
  /// platform.
  virtual Status load(std::span<const CodeFile> files) = 0;
  /// Call on the rank's thread. The communicator outlives the device.
  virtual Result<std::unique_ptr<Device>> createDevice(Communicator &communicator,
                                                       const DeviceOptions &options) = 0;
};

} // namespace dtc::rt
