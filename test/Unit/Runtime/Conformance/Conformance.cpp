#include "Conformance.h"

#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <barrier>
#include <cstring>
#include <thread>

namespace dtc::rt::conformance {
namespace {

std::vector<Target> &registered() {
  static std::vector<Target> list;
  return list;
}

} // namespace

/// A GPU's threads do one iteration each.
LaunchSpec launchOf(const std::string &kernel, size_t numArguments, uint64_t extent, uint64_t grain,
                    uint64_t scratch) {
  uint64_t threads = std::min<uint64_t>(std::max<uint64_t>(extent, 1), 256);
  while (extent % threads != 0)
    --threads;
  LaunchGeometry geometry{static_cast<uint32_t>(std::max<uint64_t>(extent / threads, 1)),
                          static_cast<uint32_t>(threads), 0};
  return {kernel, numArguments, extent, grain, scratch, geometry};
}

const std::vector<Target> &targets() { return registered(); }
RegisterTarget::RegisterTarget(Target target) { registered().push_back(std::move(target)); }

Status Rank::begin(std::vector<QueueKind> kinds, uint64_t arenaBytes) {
  std::vector<QueueSpec> specs;
  for (QueueKind kind : kinds)
    specs.push_back({"queue" + std::to_string(specs.size()), kind});
  auto made = device.createQueues(specs);
  if (!made)
    return made.status();
  queues = std::move(*made);
  auto memory = device.allocate(Space::Device, arenaBytes);
  if (!memory)
    return memory.status();
  arena = std::move(*memory);
  return Status::ok();
}

Status Rank::put(uint64_t offset, const std::vector<float> &values) {
  uint64_t bytes = values.size() * sizeof(float);
  return device.write(at(offset), bytes,
                      [&](char *host) { std::memcpy(host, values.data(), bytes); });
}

std::vector<float> Rank::get(uint64_t offset, size_t count) {
  std::vector<float> values(count);
  uint64_t bytes = count * sizeof(float);
  Status status = device.read(at(offset), bytes, [&](const char *host) {
    std::memcpy(values.data(), host, bytes);
  });
  EXPECT_TRUE(status.isOk()) << status.message();
  return values;
}

Status Rank::prepare(size_t queue, const OperationSpec &spec) {
  auto made = device.prepare(*queues[queue], spec, "op");
  if (made)
    operations.push_back(std::move(*made));
  return made ? Status::ok() : made.status();
}

Status Rank::issue(size_t queue, const OperationSpec &spec, const std::vector<uint64_t> &offsets,
                   const std::string &name) {
  auto made = device.prepare(*queues[queue], spec, name);
  if (!made)
    return made.status();
  operations.push_back(std::move(*made));
  std::vector<Address> addresses;
  for (uint64_t offset : offsets)
    addresses.push_back(at(offset));
  return operations.back()->issue(addresses);
}

Status Rank::copy(size_t queue, uint64_t from, uint64_t to, uint64_t bytes) {
  return issue(queue, CopySpec{bytes}, {from, to});
}
Status Rank::add(size_t queue, uint64_t a, uint64_t b, uint64_t target, uint64_t count) {
  return issue(queue, launchOf("add", 3, count, 64, 0), {a, b, target});
}
Status Rank::send(size_t queue, int peer, uint64_t offset, uint64_t bytes) {
  return issue(queue, MessageSpec{false, peer, 0, {bytes}}, {offset}, "send.op");
}
Status Rank::receive(size_t queue, int peer, uint64_t offset, uint64_t bytes) {
  return issue(queue, MessageSpec{true, peer, 0, {bytes}}, {offset}, "receive.op");
}

void Rank::order(size_t before, size_t after) {
  events.push_back(device.createEvent());
  queues[before]->signal(*events.back());
  queues[after]->wait(*events.back());
}

Status Rank::synchronizeAll() {
  Status first = Status::ok();
  for (auto &queue : queues)
    if (Status status = queue->synchronize(); first.isOk())
      first = status;
  return first;
}

std::string Conformance::lackOf(int ranks) {
  return GetParam().whySkipped ? GetParam().whySkipped(ranks) : "";
}

void Conformance::SetUp() { DTC_NEEDS_RANKS(1); }

std::vector<Status> Conformance::statusesOf(int ranks, const Body &body,
                                            std::chrono::milliseconds timeLimit, int threads) {
  std::vector<Status> statuses(static_cast<size_t>(ranks), Status::ok());
  std::unique_ptr<Platform> platform = GetParam().createPlatform();
  std::string code = GetParam().code();
  std::vector<CodeFile> files = {{GetParam().codeName, code}};
  if (Status status = platform->load(files); !status.isOk()) {
    ADD_FAILURE() << status.message();
    return statuses;
  }
  ThreadWorld world(ranks, timeLimit);
  std::barrier finished(ranks); // others may be reading a rank's memory until all queues have ended
  auto work = [&](Communicator &communicator) {
    auto device = platform->createDevice(communicator, {threads, {}});
    if (!device) {
      communicator.abort(device.status());
      finished.arrive_and_drop();
      return device.status();
    }
    Rank rank(**device, communicator);
    Status status = body(rank);
    if (!status.isOk())
      communicator.abort(status);
    rank.end();
    finished.arrive_and_wait();
    return status;
  };
  std::vector<std::thread> workers;
  for (int rank = 0; rank < ranks; ++rank)
    workers.emplace_back([&, rank] {
      auto communicator = world.communicator(rank);
      statuses[rank] = work(*communicator);
    });
  for (std::thread &worker : workers)
    worker.join();
  return statuses;
}

void Conformance::onRanks(int ranks, const Body &body, int threads) {
  DTC_NEEDS_RANKS(ranks);
  for (const Status &status : statusesOf(ranks, body, std::chrono::seconds(20), threads))
    EXPECT_TRUE(status.isOk()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Device, Conformance, testing::ValuesIn(targets()),
                         [](const auto &info) { return info.param.name; });

} // namespace dtc::rt::conformance
