// Collectives of a rank that is a process, made of exchanges.
//
// Each rank of a group talks to each other one directly. An all-reduce of many bytes divides them.
// Rank i gets part i of every source, adds in the order of the ranks, and sends the sums to all. It
// goes piece by piece, so that little memory is needed beside the arena.
#include "dtc-rt/Processes/ProcessCommunicator.h"

#include "Exchange.h"
#include "Staging.h"

#include "dtc-rt/Reduce.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt {
namespace {

/// Below, all ranks send all they have to all, which takes one exchange instead of two.
constexpr int64_t kSmallBytes = 16 << 10;
/// Of what each rank sends to another at a time, where parts are reduced.
constexpr int64_t kPieceBytes = 512 << 10;
/// Parts of an all-reduce begin at cache lines.
constexpr int64_t kLine = 64;

/// FNV-1a of numbers.
class Signature {
public:
  explicit Signature(const char *name) {
    for (; *name; ++name)
      add(*name);
  }
  void add(int64_t number) {
    for (int i = 0; i < 8; ++i)
      hash = (hash ^ (static_cast<uint64_t>(number) >> (8 * i) & 0xff)) * 0x100000001b3;
  }
  void add(std::span<const Transfer> buffers) {
    add(static_cast<int64_t>(buffers.size()));
    for (const Transfer &buffer : buffers) {
      add(static_cast<int64_t>(buffer.shape.size()));
      for (int64_t size : buffer.shape)
        add(size);
    }
  }
  uint64_t value() const { return hash; }

private:
  uint64_t hash = 0xcbf29ce484222325;
};

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// The elements of part `index` of `parts`, which begin at cache lines.
Range partRange(int64_t total, int64_t line, int64_t index, int64_t parts) {
  int64_t lines = (total + line - 1) / line;
  return {std::min(total, lines * index / parts * line),
          std::min(total, lines * (index + 1) / parts * line)};
}

/// Piece `number` of a part.
Range pieceOf(const Range &part, int64_t number, int64_t elements) {
  int64_t begin = std::min(part.end, part.begin + number * elements);
  return {begin, std::min(part.end, begin + elements)};
}

class ProcessCommunicator : public Communicator {
public:
  ProcessCommunicator(ProcessWorld::Impl &world, const std::string &queue,
                      Exchange::Use use = Exchange::Use::Steps)
      : world(world), use(use), collectives(world, "queue " + queue, use) {}

  int rank() const override { return world.rank(); }
  int worldSize() const override { return world.worldSize(); }
  std::chrono::milliseconds timeLimit() const override { return world.limit(); }
  void setPulse(const StepPulse &pulse) override { world.setPulse(pulse); }
  std::unique_ptr<Communicator> forQueue(const std::string &name) override {
    return std::make_unique<ProcessCommunicator>(world, name, use);
  }
  std::unique_ptr<Communicator> forNews(const std::string &name) override {
    return std::make_unique<ProcessCommunicator>(world, name, Exchange::Use::News);
  }

  RankGroup group(const std::vector<int> &ranks) override {
    RankGroup group;
    group.ranks = ranks;
    group.position = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    return group;
  }

  Status allReduce(const RankGroup &group, Reduction kind, DType dtype,
                   std::span<const Transfer> buffers) override {
    begin("all_reduce", dtype, static_cast<int>(kind), -1, -1, buffers);
    std::vector<Run> sources, targets;
    for (const Transfer &buffer : buffers) {
      int64_t bytes = product(buffer.shape) * sizeOf(dtype);
      sources.push_back({const_cast<char *>(buffer.source), bytes});
      targets.push_back({buffer.target, bytes});
    }
    if (group.size() == 1 || totalBytes(sources) <= kSmallBytes)
      return reduceAtOnce(group, kind, dtype, sources, targets);
    return reduceInParts(group, kind, dtype, sources, targets);
  }

  Status allGather(const RankGroup &group, DType dtype, std::span<const Transfer> buffers,
                   int dim) override {
    begin("all_gather", dtype, 0, dim, -1, buffers);
    std::vector<GatheredBuffer> gathered;
    for (const Transfer &buffer : buffers)
      gathered.emplace_back(buffer, sizeOf(dtype), dim, group);
    std::vector<Exchange::Outgoing> outgoing;
    std::vector<Exchange::Incoming> incoming;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.position)
        continue;
      outgoing.push_back({group.ranks[peer], {}});
      incoming.push_back({group.ranks[peer], {}});
      for (GatheredBuffer &buffer : gathered) {
        outgoing.back().blocks.push_back(buffer.own());
        incoming.back().blocks.push_back(buffer.placeOf(peer));
      }
    }
    if (Status status = collectives.run(call, outgoing, incoming); !status.isOk())
      return status;
    for (GatheredBuffer &buffer : gathered)
      buffer.finish();
    return Status::ok();
  }

  Status reduceScatter(const RankGroup &group, Reduction kind, DType dtype,
                       std::span<const Transfer> buffers, int dim) override {
    begin("reduce_scatter", dtype, static_cast<int>(kind), dim, -1, buffers);
    std::vector<ScatteredBuffer> scattered;
    for (const Transfer &buffer : buffers)
      scattered.emplace_back(buffer, sizeOf(dtype), dim, group);
    std::vector<std::vector<Run>> parts(group.ranks.size()); // of the sources, by position
    std::vector<Run> results;
    for (ScatteredBuffer &buffer : scattered) {
      for (int peer = 0; peer < group.size(); ++peer)
        parts[peer].push_back(buffer.part(peer));
      results.push_back(buffer.result());
    }
    Status status = reduceOwnParts(group, kind, dtype, parts, results);
    for (ScatteredBuffer &buffer : scattered)
      buffer.finish();
    return status;
  }

  Status allToAll(const RankGroup &group, DType dtype, const Transfer &buffer, int splitDim,
                  int concatDim) override {
    begin("all_to_all", dtype, 0, splitDim, concatDim, {&buffer, 1});
    Dims part = buffer.shape, whole;
    part[splitDim] /= group.size();
    whole = part;
    whole[concatDim] *= group.size();
    int64_t bytes = product(part) * sizeOf(dtype);
    Dims origin(part.size(), 0);
    std::vector<std::vector<char>> sent(group.ranks.size()), received(group.ranks.size());
    std::vector<Exchange::Outgoing> outgoing;
    std::vector<Exchange::Incoming> incoming;
    for (int peer = 0; peer < group.size(); ++peer) {
      sent[peer].resize(static_cast<size_t>(bytes));
      Box from{buffer.shape, origin};
      from.offset[splitDim] = peer * part[splitDim];
      copyBox(part, sent[peer].data(), {part, origin}, buffer.source, from, sizeOf(dtype));
      if (peer == group.position)
        continue;
      received[peer].resize(static_cast<size_t>(bytes));
      outgoing.push_back({group.ranks[peer], {{sent[peer].data(), sent[peer].size()}}});
      incoming.push_back({group.ranks[peer], {{received[peer].data(), received[peer].size()}}});
    }
    if (Status status = collectives.run(call, outgoing, incoming); !status.isOk())
      return status;
    for (int peer = 0; peer < group.size(); ++peer) {
      Box to{whole, origin};
      to.offset[concatDim] = peer * part[concatDim];
      const auto &from = peer == group.position ? sent[peer] : received[peer];
      copyBox(part, buffer.target, to, from.data(), {part, origin}, sizeOf(dtype));
    }
    return Status::ok();
  }

  Status permute(const RankGroup &group, DType dtype, const Transfer &buffer,
                 std::span<const int64_t> sources) override {
    begin("permute", dtype, 0, -1, -1, {&buffer, 1});
    auto bytes = static_cast<uint64_t>(product(buffer.shape) * sizeOf(dtype));
    int64_t from = sources[group.position];
    std::vector<char> staging(buffer.source == buffer.target ? bytes : 0);
    char *place = staging.empty() ? buffer.target : staging.data();
    std::vector<Exchange::Outgoing> outgoing;
    std::vector<Exchange::Incoming> incoming;
    for (int peer = 0; peer < group.size(); ++peer)
      if (peer != group.position && sources[peer] == group.position)
        outgoing.push_back({group.ranks[peer], {{buffer.source, bytes}}});
    if (from != group.position)
      incoming.push_back({group.ranks[from], {{place, bytes}}});
    else if (buffer.source != buffer.target)
      std::memcpy(buffer.target, buffer.source, bytes);
    Status status = collectives.run(call, outgoing, incoming);
    if (status.isOk() && from != group.position && !staging.empty())
      std::memcpy(buffer.target, staging.data(), bytes);
    return status;
  }

  Status broadcast(const RankGroup &group, char *data, uint64_t bytes, int root) override {
    Transfer buffer{data, data, {static_cast<int64_t>(bytes)}};
    begin("broadcast", DType::U8, root, -1, -1, {&buffer, 1});
    std::vector<Exchange::Outgoing> outgoing;
    std::vector<Exchange::Incoming> incoming;
    for (int peer = 0; group.position == root && peer < group.size(); ++peer)
      if (peer != root)
        outgoing.push_back({group.ranks[peer], {{data, bytes}}});
    if (group.position != root)
      incoming.push_back({group.ranks[root], {{data, bytes}}});
    return collectives.run(call, outgoing, incoming);
  }

  Status barrier(const RankGroup &group) override {
    begin("barrier", DType::U8, 0, -1, -1, {});
    std::vector<Exchange::Outgoing> outgoing;
    std::vector<Exchange::Incoming> incoming;
    for (int peer = 0; peer < group.size(); ++peer)
      if (peer != group.position) {
        outgoing.push_back({group.ranks[peer], {}});
        incoming.push_back({group.ranks[peer], {}});
      }
    return collectives.run(call, outgoing, incoming);
  }

  Status send(int to, uint32_t channel, std::span<const SendBlock> blocks) override {
    Exchange::Outgoing message{to, {blocks.begin(), blocks.end()}};
    return messages(rank(), to, channel).run(callOf("send", blocks), {&message, 1}, {});
  }
  Status receive(int from, uint32_t channel, std::span<const ReceiveBlock> blocks) override {
    Exchange::Incoming message{from, {blocks.begin(), blocks.end()}};
    return messages(from, rank(), channel).run(callOf("receive", blocks), {}, {&message, 1});
  }

  void abort(const Status &reason) override { world.abort(reason); }
  Status waitedTooLong(const Status &reason, std::optional<int> missing) override {
    return world.timedOut(reason, {missing});
  }
  Status deviceTookTooLong(const Status &reason, const std::function<bool()> &isDone) override {
    return world.deviceTimedOut(reason, isDone);
  }
  Status check() const override { return world.check(); }

private:
  void begin(const char *name, DType dtype, int variant, int dim, int otherDim,
             std::span<const Transfer> buffers) {
    Signature signature(name);
    for (int number : {static_cast<int>(dtype), variant, dim, otherDim})
      signature.add(number);
    signature.add(buffers);
    call = {name, purpose, signature.value()};
  }

  template <typename Block> ExchangeCall callOf(const char *name, std::span<const Block> blocks) {
    Signature signature("message");
    for (const Block &block : blocks)
      signature.add(static_cast<int64_t>(block.bytes));
    return {name, purpose, signature.value()};
  }

  Exchange &messages(int from, int to, uint32_t channel) {
    auto key = std::tuple(from, to, channel);
    auto known = channels.find(key);
    if (known == channels.end())
      known = channels
                  .try_emplace(
                      key, world,
                      "channel " + std::to_string(channel) + " from " + std::to_string(from), use)
                  .first;
    return known->second;
  }

  /// Memory for what the others send to be reduced, by position.
  std::vector<char *> stagingFor(const RankGroup &group, int64_t bytes) {
    staging.resize(std::max(staging.size(), static_cast<size_t>(group.size() * bytes)));
    std::vector<char *> places;
    for (int peer = 0; peer < group.size(); ++peer)
      places.push_back(staging.data() + peer * bytes);
    return places;
  }

  /// Reduces [begin, end) of this rank's sources with what the others sent, into the targets.
  void reduce(const RankGroup &group, Reduction kind, DType dtype, const std::vector<Run> &sources,
              const std::vector<Run> &targets, const Range &range,
              const std::vector<char *> &theirs) {
    int64_t size = sizeOf(dtype), done = 0;
    auto own = slice(sources, range.begin * size, range.end * size);
    auto into = slice(targets, range.begin * size, range.end * size);
    for (size_t i = 0; i < own.size(); ++i) {
      std::vector<const char *> from(theirs.begin(), theirs.end());
      for (const char *&place : from)
        place += done;
      from[group.position] = own[i].data;
      reduceInto(kind, dtype, from, {&into[i].data, 1}, 0, own[i].bytes / size);
      done += own[i].bytes;
    }
  }

  Status reduceAtOnce(const RankGroup &group, Reduction kind, DType dtype,
                      const std::vector<Run> &sources, const std::vector<Run> &targets) {
    int64_t bytes = totalBytes(sources);
    std::vector<char *> theirs = stagingFor(group, bytes);
    std::vector<Exchange::Outgoing> outgoing;
    std::vector<Exchange::Incoming> incoming;
    for (int peer = 0; peer < group.size(); ++peer)
      if (peer != group.position) {
        outgoing.push_back({group.ranks[peer], asSent(slice(sources, 0, bytes))});
        incoming.push_back({group.ranks[peer], {{theirs[peer], static_cast<uint64_t>(bytes)}}});
      }
    if (Status status = collectives.run(call, outgoing, incoming); !status.isOk())
      return status;
    reduce(group, kind, dtype, sources, targets, {0, bytes / sizeOf(dtype)}, theirs);
    return Status::ok();
  }

  /// While the sources of one piece are on their way, so are the sums of the piece before.
  Status reduceInParts(const RankGroup &group, Reduction kind, DType dtype,
                       const std::vector<Run> &sources, const std::vector<Run> &targets) {
    int64_t size = sizeOf(dtype), elements = kPieceBytes / size;
    int64_t total = totalBytes(sources) / size, longest = 0;
    std::vector<Range> parts;
    for (int peer = 0; peer < group.size(); ++peer) {
      parts.push_back(partRange(total, kLine / size, peer, group.size()));
      longest = std::max(longest, parts.back().size());
    }
    int64_t pieces = (longest + elements - 1) / elements;
    std::vector<char *> theirs = stagingFor(group, elements * size);
    const Range &mine = parts[group.position];
    auto add = [&](auto &blocks, const std::vector<Run> &runs, const Range &range) {
      for (const Run &run : slice(runs, range.begin * size, range.end * size))
        blocks.push_back({run.data, static_cast<uint64_t>(run.bytes)});
    };
    for (int64_t piece = 0; piece <= pieces; ++piece) {
      std::vector<Exchange::Outgoing> outgoing;
      std::vector<Exchange::Incoming> incoming;
      Range own = pieceOf(mine, piece, elements);
      for (int peer = 0; peer < group.size(); ++peer) {
        if (peer == group.position)
          continue;
        auto &sent = outgoing.emplace_back(group.ranks[peer], std::vector<SendBlock>()).blocks;
        auto &got = incoming.emplace_back(group.ranks[peer], std::vector<ReceiveBlock>()).blocks;
        if (piece > 0) {
          add(sent, targets, pieceOf(mine, piece - 1, elements));
          add(got, targets, pieceOf(parts[peer], piece - 1, elements));
        }
        add(sent, sources, pieceOf(parts[peer], piece, elements));
        got.push_back({theirs[peer], static_cast<uint64_t>(own.size() * size)});
      }
      if (Status status = collectives.run(call, outgoing, incoming); !status.isOk())
        return status;
      reduce(group, kind, dtype, sources, targets, own, theirs);
    }
    return Status::ok();
  }

  /// Every rank gets its own part from all, in pieces. A result may take its source's place.
  Status reduceOwnParts(const RankGroup &group, Reduction kind, DType dtype,
                        const std::vector<std::vector<Run>> &parts,
                        const std::vector<Run> &results) {
    int64_t size = sizeOf(dtype), elements = kPieceBytes / size;
    int64_t total = totalBytes(results) / size;
    std::vector<char *> theirs = stagingFor(group, std::min(elements, total) * size);
    for (int64_t begin = 0; begin < total; begin += elements) {
      Range range{begin, std::min(total, begin + elements)};
      std::vector<Exchange::Outgoing> outgoing;
      std::vector<Exchange::Incoming> incoming;
      for (int peer = 0; peer < group.size(); ++peer)
        if (peer != group.position) {
          auto sent = slice(parts[peer], range.begin * size, range.end * size);
          outgoing.push_back({group.ranks[peer], asSent(sent)});
          incoming.push_back(
              {group.ranks[peer], {{theirs[peer], static_cast<uint64_t>(range.size() * size)}}});
        }
      if (Status status = collectives.run(call, outgoing, incoming); !status.isOk())
        return status;
      reduce(group, kind, dtype, parts[group.position], results, range, theirs);
    }
    return Status::ok();
  }

  ProcessWorld::Impl &world;
  const Exchange::Use use;
  Exchange collectives;
  std::map<std::tuple<int, int, uint32_t>, Exchange> channels; ///< by sender, receiver, channel
  std::vector<char> staging;
  ExchangeCall call;
};

} // namespace

std::unique_ptr<Communicator> ProcessWorld::communicator(int) {
  return std::make_unique<ProcessCommunicator>(*impl, "");
}

} // namespace dtc::rt
