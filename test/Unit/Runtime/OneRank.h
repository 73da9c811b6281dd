// A program of one rank with its arena, ready to run.
#pragma once

#include "TestArtifact.h"

#include "dtc-rt/Executor.h"
#include "dtc-rt/ThreadCommunicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

namespace dtc::rt::test {

/// Runs a program on all ranks of a mesh; every rank has its own arena, which
/// `fill` prepares and `check` looks at. Returns the first error.
inline Status runProgram(const fbs::ProgramT &program, const Json &json,
                         std::function<void(int rank, char *arena)> fill,
                         std::function<void(int rank, const char *arena)> check,
                         const CodeObject &code = {}) {
  Manifest manifest = parsed(json);
  std::string bytes = serialized(program);
  Result<ProgramView> view = ProgramView::open(bytes, manifest);
  if (!view)
    return view.status();
  int ranks = static_cast<int>(manifest.worldSize);
  ThreadWorld world(ranks, std::chrono::seconds(20));
  std::vector<Arena> arenas;
  for (int rank = 0; rank < ranks; ++rank)
    arenas.push_back(std::move(*Arena::create(program.arena_bytes)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto communicator = world.communicator(rank);
      ThreadTeam team(static_cast<int>(manifest.threadsPerRank));
      fill(rank, arenas[rank].data());
      Result<Executor> executor = Executor::create(
          {manifest, *view, code, *communicator, team, arenas[rank].data()});
      Status status = executor ? executor->runStep() : executor.status();
      if (!status.isOk())
        world.abort(status);
    });
  for (std::thread &thread : threads)
    thread.join();
  if (Status status = world.abortReason(); !status.isOk())
    return status;
  for (int rank = 0; rank < ranks; ++rank)
    check(rank, arenas[rank].data());
  return Status::ok();
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
