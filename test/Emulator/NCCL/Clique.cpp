#include "Emulator/NCCL/Clique.h"

#include "Emulator/Device/Device.h"
#include "Emulator/Device/Fault.h"
#include "Emulator/Device/Settings.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <set>

namespace dtc::emulator {

using namespace dtc::cuda;

std::string describe(const Question &collective) {
  constexpr const char *kinds[] = {"all_reduce", "all_gather", "reduce_scatter"};
  constexpr const char *reductions[] = {"sum", "product", "maximum", "minimum", "average"};
  std::string text = concat(kinds[static_cast<int>(collective.kind)], " of ", collective.count, " ",
                            nameOf(collective.type));
  return collective.kind == Collective::AllGather
             ? text
             : concat(text, " (", reductions[collective.reduction], ")");
}

namespace {

class LocalClique : public Clique {
public:
  LocalClique(const std::string &name, size_t size)
      : Clique(name, size), members(size), rounds(size, 0), aborted(size, false) {}

  Answer ask(const Question &question, const Messages &messages) override {
    Lock lock(mutex);
    try {
      return answer(lock, question, messages);
    } catch (const Aborted &) {
      return {false};
    }
  }

private:
  struct Round {
    std::map<unsigned, std::pair<Question, Messages>> parts;
    bool isDone = false;
    size_t left = 0;
  };
  struct Pending {
    Message message;
    std::shared_ptr<bool> isDone;
  };
  using Lock = std::unique_lock<std::mutex>;
  struct Aborted {}; ///< thrown out of a wait

  bool isComplete() const {
    return std::ranges::all_of(members, [](const auto &member) { return member.has_value(); });
  }

  Answer answer(Lock &lock, const Question &question, const Messages &messages) {
    switch (question.request) {
    case Request::Join:
      join(question);
      break;
    case Request::State:
      return {.isTrue = isComplete(), .text = failed};
    case Request::AwaitComplete:
      await(lock, question.rank, concat("the initialization of a communicator of ", size, " ranks"),
            [&] { return isComplete(); });
      break;
    case Request::Connect:
      return {connect(question.rank, question.peer)};
    case Request::Collect:
      collect(lock, question, messages);
      break;
    case Request::Exchange:
      exchange(lock, question.rank, messages);
      break;
    case Request::Split:
      return split(question);
    case Request::Abort:
      // The rank's waits end, and no device fails. As with NCCL over NVLink, no other rank learns
      // of it: each waits until it has aborted its own.
      aborted[question.rank] = true;
      changed.notify_all();
    }
    return {};
  }

  template <typename... Part> [[noreturn]] void fail(const Part &...parts) {
    if (failed.empty())
      failed = concat(parts...);
    changed.notify_all();
    throw Fault(CUDA_ERROR_LAUNCH_FAILED, "NCCL, communicator ", title, ": ", parts...);
  }

  void join(const Question &question) {
    require(question.rank < size && !members[question.rank], ncclInvalidArgument, "rank ",
            question.rank, " of ", size, " exists already or can't exist");
    members[question.rank] = question.device;
    changed.notify_all();
  }

  bool connect(unsigned rank, unsigned peer) {
    connecting.emplace(rank, peer);
    if (peer < size)
      return connecting.contains({peer, rank});
    auto withAll = [&](const auto &each) { return each.second == size; };
    return static_cast<size_t>(std::ranges::count_if(connecting, withAll)) == size;
  }

  template <typename Condition>
  void await(Lock &lock, unsigned rank, const std::string &what, Condition &&condition) {
    const std::chrono::seconds timeout = settings().collectiveTimeout;
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!condition()) {
      if (aborted[rank])
        throw Aborted();
      if (!failed.empty())
        throw Fault::reported(CUDA_ERROR_LAUNCH_FAILED,
                              concat("NCCL, communicator ", title, ": ", failed));
      for (unsigned other = 0; other < size; ++other)
        if (Device *device = members[other].value_or(nullptr); device && device->hasFailed())
          fail("rank ", rank, " waits in ", what, ", and the device of rank ", other,
               " has failed");
      if (std::chrono::steady_clock::now() > deadline)
        fail("rank ", rank, " waited ", timeout.count(), " s in ", missing(what));
      changed.wait_for(lock, std::chrono::milliseconds(50));
    }
  }

  /// Of an operation that begins. After an abort or a failure, ranks that gave their parts before
  /// may use that memory again, so that none comes to pass.
  void requireUsable(Lock &lock, unsigned rank) {
    if (std::ranges::count(aborted, true) > 0 || !failed.empty())
      await(lock, rank, "what another rank has aborted", [] { return false; });
  }

  std::string missing(const std::string &what) const {
    std::string text = what + "; collectives begun by rank:";
    for (unsigned rank = 0; rank < size; ++rank)
      text += members[rank] ? concat(" ", rounds[rank]) : " (not joined)";
    return text;
  }

  void collect(Lock &lock, const Question &question, const Messages &messages) {
    requireUsable(lock, question.rank);
    uint64_t number = ++rounds[question.rank];
    Round &round = open.try_emplace(number, Round{{}, false, size}).first->second;
    std::string mine = describe(question);
    for (const auto &[other, part] : round.parts)
      if (std::string theirs = describe(part.first); theirs != mine)
        fail("ranks disagree about collective ", number, ": rank ", question.rank, " has ", mine,
             ", rank ", other, " has ", theirs);
    round.parts[question.rank] = {question, messages};
    if (round.parts.size() == size) {
      carryOut(round);
      round.isDone = true;
      changed.notify_all();
    } else {
      await(lock, question.rank, concat("collective ", number, ", ", mine),
            [&] { return open[number].isDone; });
    }
    if (--open[number].left == 0)
      open.erase(number);
  }

  void carryOut(const Round &round) {
    const auto &[any, ofAny] = round.parts.begin()->second;
    std::vector<const std::byte *> inputs;
    for (const auto &[rank, part] : round.parts)
      inputs.push_back(part.second[0].data);
    std::vector<std::byte> result;
    if (any.kind == Collective::AllGather)
      for (const std::byte *input : inputs)
        result.insert(result.end(), input, input + ofAny[0].bytes());
    else
      result = reduce(inputs, ofAny[0].count, any.type, any.reduction);
    for (const auto &[rank, part] : round.parts) {
      const Message &target = part.second[1];
      uint64_t offset = any.kind == Collective::ReduceScatter ? rank * target.bytes() : 0;
      std::memcpy(target.data, result.data() + offset, target.bytes());
    }
  }

  std::shared_ptr<bool> post(unsigned rank, const Message &message) {
    auto channel = message.isSend ? std::pair(rank, message.peer) : std::pair(message.peer, rank);
    auto &waiting = message.isSend ? receives[channel] : sends[channel];
    if (waiting.empty()) {
      auto isDone = std::make_shared<bool>(false);
      (message.isSend ? sends : receives)[channel].push_back({message, isDone});
      return isDone;
    }
    Pending other = waiting.front();
    waiting.pop_front();
    const Message &send = message.isSend ? message : other.message;
    const Message &receive = message.isSend ? other.message : message;
    if (send.count != receive.count || send.type != receive.type)
      fail("rank ", channel.first, " sends ", send.count, " ", nameOf(send.type), ", and rank ",
           channel.second, " receives ", receive.count, " ", nameOf(receive.type));
    std::memcpy(receive.data, send.data, send.bytes());
    *other.isDone = true;
    changed.notify_all();
    return other.isDone;
  }

  void exchange(Lock &lock, unsigned rank, const Messages &messages) {
    requireUsable(lock, rank);
    std::vector<std::shared_ptr<bool>> done;
    for (const Message &message : messages)
      done.push_back(post(rank, message));
    for (size_t i = 0; i < messages.size(); ++i)
      await(lock, rank,
            concat(messages[i].isSend ? "a send of " : "a receive of ", messages[i].count, " ",
                   nameOf(messages[i].type), messages[i].isSend ? " to rank " : " from rank ",
                   messages[i].peer),
            [&] { return *done[i]; });
  }

  /// A part has the ranks of a color, in the order of their keys.
  Answer split(const Question &question) {
    auto &requests = splits[question.number];
    std::pair<int, int> wanted(question.color, question.key);
    auto [mine, isNew] = requests.emplace(question.rank, wanted);
    require(mine->second == wanted, ncclInvalidUsage, "rank ", question.rank,
            " changes its mind about split ", question.number);
    if (requests.size() < size)
      return {false};
    Answer part;
    for (const auto &[other, request] : requests)
      if (request.first == question.color) {
        ++part.ranks;
        part.rank += std::pair(request.second, other) < std::pair(question.key, question.rank);
      }
    return part;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Device *>> members;       // by rank; none until it has joined
  std::vector<uint64_t> rounds;                       // how many collectives each rank has begun
  std::set<std::pair<unsigned, unsigned>> connecting; // a rank, and whom with; `size`: with all
  std::map<uint64_t, Round> open;
  std::map<std::pair<unsigned, unsigned>, std::deque<Pending>> sends,
      receives; // by source and target
  /// Color and key by rank, of each split.
  std::map<uint64_t, std::map<unsigned, std::pair<int, int>>> splits;
  std::string failed;
  std::vector<bool> aborted; // by rank
};

} // namespace

std::shared_ptr<Clique> makeLocalClique(const std::string &name, size_t size) {
  return std::make_shared<LocalClique>(name, size);
}

} // namespace dtc::emulator
