#include "dtc-rt/Profile.h"

#include "dtc-rt/Program/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <string_view>

namespace dtc::rt {

using nlohmann::ordered_json;

namespace {

/// Some 6 MB a queue.
constexpr size_t kMostSlices = 1 << 18;
/// Of the trace: steps, and the queues behind them.
constexpr int kStepThread = 0, kFirstQueue = 1;

double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

std::string textOf(const ordered_json &event) {
  return event.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + ",\n";
}

std::string nameEvent(int rank, int thread, const char *kind, const std::string &name) {
  return textOf(
      {{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", kind}, {"args", {{"name", name}}}});
}

std::string slice(int rank, int thread, const std::string &kind, const std::string &name,
                  int64_t begin, int64_t end) {
  return textOf({{"ph", "X"},
                 {"pid", rank},
                 {"tid", thread},
                 {"ts", microseconds(begin)},
                 {"dur", microseconds(end - begin)},
                 {"name", name},
                 {"cat", kind}});
}

/// Sends a text to rank 0, which gets it.
Status sendText(Communicator &communicator, const std::string &text) {
  uint64_t size = text.size();
  SendBlock length{reinterpret_cast<const char *>(&size), sizeof(size)};
  if (Status status = communicator.send(0, kRuntimeChannel, {&length, 1}); !status.isOk())
    return status;
  SendBlock block{text.data(), size};
  return communicator.send(0, kRuntimeChannel, {&block, 1});
}

Status receiveText(Communicator &communicator, int from, std::string &text) {
  uint64_t size = 0;
  ReceiveBlock length{reinterpret_cast<char *>(&size), sizeof(size)};
  if (Status status = communicator.receive(from, kRuntimeChannel, {&length, 1}); !status.isOk())
    return status;
  text.resize(size);
  ReceiveBlock block{text.data(), size};
  return communicator.receive(from, kRuntimeChannel, {&block, 1});
}

Status writeFile(const std::string &path, const std::string &events) {
  // The last event has no comma behind it.
  const std::string_view parts[] = {
      "{\"traceEvents\":[\n",
      std::string_view(events).substr(0, events.size() - std::min<size_t>(events.size(), 2)),
      "\n]}\n"};
  size_t size = 0;
  for (std::string_view part : parts)
    size += part.size();
  Result<OutputFile> file = OutputFile::create(path, size);
  if (!file)
    return file.status();
  char *at = file->data();
  for (std::string_view part : parts)
    at = std::copy(part.begin(), part.end(), at);
  return file->commit();
}

} // namespace

const char *kindOf(const OperationSpec &spec) {
  if (const auto *collective = std::get_if<CollectiveSpec>(&spec))
    return nameOf(collective->kind);
  if (const auto *message = std::get_if<MessageSpec>(&spec))
    return message->receives ? "receive" : "send";
  if (std::holds_alternative<LaunchSpec>(spec))
    return "kernel";
  if (std::holds_alternative<MatmulSpec>(spec))
    return "matmul";
  if (std::holds_alternative<AttentionSpec>(spec))
    return "attention";
  return std::holds_alternative<ConvSpec>(spec) ? "convolution" : "copy";
}

void QueueProfile::add(uint32_t operation, int64_t begin, int64_t end) {
  if (slices.size() < kMostSlices)
    slices.push_back({operation, begin, end});
  else
    isFull = true;
}

int64_t RankProfile::now() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

QueueProfile &RankProfile::addQueue(const std::string &name) {
  return *queues.emplace_back(std::make_unique<QueueProfile>(name));
}

uint32_t RankProfile::addOperation(const std::string &kind, const std::string &name) {
  operations.push_back({kind, name});
  return static_cast<uint32_t>(operations.size() - 1);
}

std::string RankProfile::events(int rank) const {
  std::string text = nameEvent(rank, kStepThread, "process_name", "rank " + std::to_string(rank)) +
                     nameEvent(rank, kStepThread, "thread_name", "steps");
  for (const Step &step : steps)
    text += slice(rank, kStepThread, "step", "step " + std::to_string(step.number), step.begin,
                  step.end);
  for (size_t i = 0; i < queues.size(); ++i) {
    int thread = kFirstQueue + static_cast<int>(i);
    const QueueProfile &queue = *queues[i];
    text += nameEvent(rank, thread, "thread_name",
                      queue.name + (queue.isFull ? " (not all of the run)" : ""));
    for (const QueueProfile::Slice &one : queue.slices)
      text += slice(rank, thread, operations[one.operation].kind, operations[one.operation].name,
                    one.begin, one.end);
  }
  return text;
}

Status RankProfile::write(Communicator &communicator, const std::string &path) const {
  std::string text = events(communicator.rank());
  if (communicator.rank() != 0)
    return sendText(communicator, text);
  for (int rank = 1; rank < communicator.worldSize(); ++rank) {
    std::string theirs;
    if (Status status = receiveText(communicator, rank, theirs); !status.isOk())
      return status;
    text += theirs;
  }
  return writeFile(path, text);
}

} // namespace dtc::rt
