#include "Exchange.h"

namespace dtc::rt {

using asio::ip::tcp;

namespace {

/// Of a message at a time; Asio's own bound would be 64 KiB.
constexpr size_t kMostAtOnce = 4 << 20;

template <typename Buffer, typename Block>
std::vector<Buffer> buffersOf(void *head, size_t headBytes, const std::vector<Block> &blocks) {
  std::vector<Buffer> buffers = {Buffer(head, headBytes)};
  for (const Block &block : blocks)
    if (block.bytes > 0)
      buffers.emplace_back(block.data, block.bytes);
  return buffers;
}

template <typename Block> uint64_t bytesOf(const std::vector<Block> &blocks) {
  uint64_t bytes = 0;
  for (const Block &block : blocks)
    bytes += block.bytes;
  return bytes;
}

std::string rankText(int rank) { return "rank " + std::to_string(rank); }

std::string atPurpose(const ExchangeCall &call) {
  return call.purpose[0] ? std::string(" at ") + call.purpose : "";
}

} // namespace

Exchange::Exchange(ProcessWorld::Impl &world, std::string queue, Use use)
    : world(world), queue(std::move(queue)), waiter(io, use == Use::Steps) {
  world.attach(waiter);
}

Exchange::~Exchange() { world.detach(waiter); }

Status Exchange::connect(const ExchangeCall &call, int peer) {
  if (sockets.contains(peer))
    return Status::ok();
  waiter.peer = peer;
  bool calls = world.rank() < peer;
  Result<tcp::socket> made = world.open(io, peer, queue, calls);
  if (made) {
    sockets.emplace(peer, std::move(*made));
    return Status::ok();
  }
  if (world.isAborted())
    return world.check();
  return calls ? world.lost(peer, made.status().message()) : timedOut(call, {peer});
}

Status Exchange::prepare(const ExchangeCall &call, std::span<const Outgoing> outgoing,
                         std::span<const Incoming> incoming) {
  signature = call.signature;
  pending = 0;
  sent.clear();
  received.clear();
  sent.reserve(outgoing.size()); // what is on its way points into them
  received.reserve(incoming.size());
  for (const Outgoing &message : outgoing) {
    Sent &made = sent.emplace_back();
    made.peer = message.peer;
    made.head = {signature, bytesOf(message.blocks)};
    made.bytes = made.head.bytes;
    made.buffers = buffersOf<asio::const_buffer>(&made.head, sizeof(Head), message.blocks);
  }
  for (const Incoming &message : incoming) {
    Received &made = received.emplace_back();
    made.peer = message.peer;
    made.bytes = bytesOf(message.blocks);
    made.buffers = buffersOf<asio::mutable_buffer>(&made.head, sizeof(Head), message.blocks);
  }
  for (const auto &message : sent)
    if (Status status = connect(call, message.peer); !status.isOk())
      return status;
  for (const auto &message : received)
    if (Status status = connect(call, message.peer); !status.isOk())
      return status;
  return Status::ok();
}

template <typename Buffer>
size_t Exchange::goOn(Message<Buffer> &message, std::error_code error, size_t done) {
  lastMoved = std::chrono::steady_clock::now();
  if (done > 0)
    world.noteMoved();
  // A message of another call may be shorter than what is waited for.
  if constexpr (std::is_same_v<Buffer, asio::mutable_buffer>)
    if (done >= sizeof(Head) && !fits(message))
      return 0;
  return error ? 0 : kMostAtOnce;
}

template <typename Buffer> void Exchange::finish(Message<Buffer> &message, std::error_code error) {
  --pending;
  message.isComplete = !error;
  if (message.isComplete)
    world.noteMoved();
  if (!error || lostPeer >= 0)
    return;
  lostPeer = message.peer;
  lostWhy = error.message();
}

void Exchange::start(Sent &message) {
  ++pending;
  asio::async_write(
      sockets.at(message.peer), std::span<const asio::const_buffer>(message.buffers),
      [this, &message](std::error_code error, size_t done) { return goOn(message, error, done); },
      [this, &message](std::error_code error, size_t) { finish(message, error); });
}

void Exchange::start(Received &message) {
  ++pending;
  asio::async_read(
      sockets.at(message.peer), std::span<const asio::mutable_buffer>(message.buffers),
      [this, &message](std::error_code error, size_t done) { return goOn(message, error, done); },
      [this, &message](std::error_code error, size_t) { finish(message, error); });
}

Status Exchange::run(const ExchangeCall &call, std::span<const Outgoing> outgoing,
                     std::span<const Incoming> incoming) {
  if (Status status = world.check(); !status.isOk())
    return status;
  Status status = prepare(call, outgoing, incoming);
  if (status.isOk()) {
    io.restart();
    lastMoved = std::chrono::steady_clock::now();
    for (Sent &message : sent)
      start(message);
    for (Received &message : received)
      start(message);
    status = await(call);
  }
  waiter.peer = -1;
  if (!status.isOk())
    sockets.clear(); // nothing writes into the buffers any more
  return status;
}

Status Exchange::await(const ExchangeCall &call) {
  while (pending > 0) {
    if (world.isAborted()) // looked at after io.restart: a later abort stops the waiting
      return world.check();
    auto end = lastMoved + world.limit();
    std::vector<int> missing = missingRanks();
    waiter.peer = missing.empty() ? -1 : missing.front();
    bool happened = io.run_one_until(end) > 0;
    if (lostPeer >= 0)
      return world.lost(lostPeer, lostWhy);
    if (!happened && !world.isAborted() && std::chrono::steady_clock::now() >= end)
      return timedOut(call, missing);
  }
  for (const Received &message : received)
    if (!fits(message))
      return differ(call, message);
  return Status::ok();
}

Status Exchange::differ(const ExchangeCall &call, const Received &message) const {
  return failed(rankText(world.rank()) + " calls " + call.name + atPurpose(call) +
                " while another does something else: " + rankText(message.peer));
}

std::vector<int> Exchange::missingRanks() const {
  std::vector<int> missing;
  for (const Received &message : received)
    if (!message.isComplete)
      missing.push_back(message.peer);
  if (missing.empty())
    for (const Sent &message : sent)
      if (!message.isComplete)
        missing.push_back(message.peer);
  return missing;
}

Status Exchange::timedOut(const ExchangeCall &call, const std::vector<int> &missing) {
  std::string ranks;
  for (int peer : missing)
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(peer);
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(world.limit()).count();
  Status status(ErrorCategory::RankLost, rankText(world.rank()) + " waited " +
                                             std::to_string(seconds) + " s in " + call.name +
                                             atPurpose(call) + " for rank: " + ranks);
  return world.timedOut(status, {missing.front(), /*isDeviceDone=*/waiter.holdsUp});
}

} // namespace dtc::rt
