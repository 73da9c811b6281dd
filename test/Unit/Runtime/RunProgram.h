// Programs on ranks with their arenas, ready to run.
#pragma once

#include "TestArtifact.h"

#include "dtc-rt/CPU/CpuPlatform.h"
#include "dtc-rt/Executor.h"
#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <thread>

namespace dtc::rt::test {

using Fill = std::function<void(int rank, char *arena)>;
using Check = std::function<void(int rank, const char *arena)>;

struct RunSetup {
  std::string code = {}; ///< of kernels
  std::chrono::milliseconds timeLimit = std::chrono::seconds(20);
  int steps = 1;
  StepPart part = StepPart::All; ///< of each of them
};

/// One rank of a run, with its own arena.
class TestRank {
public:
  Status start(Platform &platform, const Manifest &manifest, const ProgramView &program,
               Communicator &communicator, const Fill &fill) {
    auto made =
        platform.createDevice(communicator, {static_cast<int>(manifest.threadsPerRank), {}});
    device = std::move(*made);
    arena = std::move(*device->allocate(Space::Device, program->arena_bytes()));
    hostArena = std::move(*device->allocate(Space::Host, program->host_arena_bytes()));
    fill(communicator.rank(), arena->base());
    Result<Executor> ready =
        Executor::create({program, *device, communicator.rank(),
                          manifest.roleOf(communicator.rank()).second, arena->base(),
                          hostArena->base()});
    if (!ready)
      return ready.status();
    executor.emplace(std::move(*ready));
    return Status::ok();
  }
  Status step(StepPart part) {
    Status status = executor->issueStep(part);
    return status.isOk() ? executor->synchronize() : status;
  }
  void end() { executor.reset(); }
  const char *memory() const { return arena->base(); }

private:
  std::unique_ptr<Device> device;
  std::unique_ptr<Memory> arena, hostArena;
  std::optional<Executor> executor;
};

/// Runs the programs of all roles of a manifest on their ranks; every rank has its own
/// arena, which `fill` prepares and `check` looks at. Returns the first error.
inline Status runRoles(const std::vector<const fbs::ProgramT *> &programs, const Json &json,
                       const Fill &fill, const Check &check, const RunSetup &setup = {}) {
  Manifest manifest = parsed(json);
  std::vector<std::string> bytes;
  std::vector<ProgramView> views;
  for (const fbs::ProgramT *program : programs)
    bytes.push_back(serialized(*program));
  for (size_t role = 0; role < programs.size(); ++role) {
    Result<ProgramView> view = ProgramView::open(bytes[role], manifest, role);
    if (!view)
      return view.status();
    views.push_back(*view);
  }
  std::unique_ptr<Platform> platform = createCpuPlatform(CollectiveMoment::Thread);
  std::vector<CodeFile> files = {{"kernels.so", setup.code}};
  if (!setup.code.empty())
    if (Status status = platform->load(files); !status.isOk())
      return status;
  int ranks = static_cast<int>(manifest.worldSize);
  ThreadWorld world(ranks, setup.timeLimit);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < ranks; ++rank)
    communicators.push_back(world.communicator(rank));
  std::vector<TestRank> running(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Status status = running[rank].start(*platform, manifest, views[manifest.roleOf(rank).first],
                                          *communicators[rank], fill);
      for (int step = 0; step < setup.steps && status.isOk(); ++step)
        status = running[rank].step(setup.part);
      if (!status.isOk())
        world.abort(status);
      running[rank].end();
    });
  for (std::thread &thread : threads)
    thread.join();
  if (Status status = world.abortReason(); !status.isOk())
    return status;
  for (int rank = 0; rank < ranks; ++rank)
    check(rank, running[rank].memory());
  return Status::ok();
}

/// The same of one role.
inline Status runProgram(const fbs::ProgramT &program, const Json &json, const Fill &fill,
                         const Check &check, const std::string &code = {}) {
  return runRoles({&program}, json, fill, check, {code});
}

inline void putFloats(char *arena, uint64_t offset, const std::vector<float> &values) {
  std::memcpy(arena + offset, values.data(), values.size() * sizeof(float));
}
inline std::vector<float> getFloats(const char *arena, uint64_t offset, size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), arena + offset, count * sizeof(float));
  return values;
}

} // namespace dtc::rt::test
