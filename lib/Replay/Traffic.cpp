#include "Traffic.h"

#include <algorithm>

namespace dtc::replay {
namespace {

std::string locate(const RankClasses &classes, const std::vector<Traffic> &traffic, size_t who,
                   const Site &site) {
  return classes.describe(who) + ": " + traffic[who].program->describe(site) + ": ";
}

std::string describe(const ProgramFacts &program, const Transfer &transfer, size_t buffer) {
  uint32_t microbatch = program.program.schedule[transfer.site.call].microbatch();
  return program.describeBinding(transfer.bindings[buffer]) + " of microbatch " +
         std::to_string(microbatch) + " of " + nameOfStep(transfer.site.step) + ", " +
         std::to_string(transfer.message->buffers[buffer].bytes()) + " bytes";
}

/// The message that a binding is, or a piece of. Ranks of a program have different pieces at one
/// place, whose names therefore differ at both ends.
std::string_view messageOf(const fbs::BindingT &binding) {
  std::string_view name = binding.name;
  return name.substr(0, name.rfind(" piece "));
}

bool carriesSame(const ProgramFacts &from, const Transfer &sent, const ProgramFacts &to,
                 const Transfer &received, size_t buffer) {
  const auto &source = *from.program.bindings[sent.bindings[buffer]];
  const auto &target = *to.program.bindings[received.bindings[buffer]];
  return messageOf(source) == messageOf(target) && sent.site.step == received.site.step &&
         from.program.schedule[sent.site.call].microbatch() ==
             to.program.schedule[received.site.call].microbatch() &&
         sent.message->buffers[buffer].bytes() == received.message->buffers[buffer].bytes();
}

/// Compares what a class receives on a channel with what is sent there.
class ChannelComparison {
public:
  ChannelComparison(const RankClasses &classes, const std::vector<Traffic> &traffic,
                    const Channel &channel, size_t receiver)
      : classes(classes), traffic(traffic), sender(channel.sender), receiver(receiver) {
    if (auto it = traffic[sender].sent.find(channel); it != traffic[sender].sent.end())
      sent = &it->second;
    if (auto it = traffic[receiver].received.find(channel); it != traffic[receiver].received.end())
      received = &it->second;
  }

  std::string run() const {
    for (size_t i = 0; i < std::min(sent->size(), received->size()); ++i)
      if (std::string wrong = compare((*sent)[i], (*received)[i]); !wrong.empty())
        return wrong;
    if (sent->size() > received->size())
      return locate(classes, traffic, sender, (*sent)[received->size()].site) +
             "sends a message that nobody receives";
    if (received->size() > sent->size())
      return locate(classes, traffic, receiver, (*received)[sent->size()].site) +
             "receives a message that nobody sends";
    return {};
  }

private:
  std::string compare(const Transfer &from, const Transfer &to) const {
    std::string where = locate(classes, traffic, receiver, to.site);
    if (from.bindings.size() != to.bindings.size())
      return where + "receives " + std::to_string(to.bindings.size()) + " buffers, but " +
             classes.describe(sender) + " sends " + std::to_string(from.bindings.size());
    const ProgramFacts &source = *traffic[sender].program, &target = *traffic[receiver].program;
    for (size_t buffer = 0; buffer < to.bindings.size(); ++buffer)
      if (!carriesSame(source, from, target, to, buffer))
        return where + "receives " + describe(target, to, buffer) + ", but " +
               classes.describe(sender) + " sends " + describe(source, from, buffer);
    return {};
  }

  const RankClasses &classes;
  const std::vector<Traffic> &traffic;
  size_t sender, receiver;
  const std::vector<Transfer> none;
  const std::vector<Transfer> *sent = &none, *received = &none;
};

bool isSameCall(const fbs::CollectiveT &a, const fbs::CollectiveT &b) {
  auto sameShape = [](const auto &x, const auto &y) { return x->shape == y->shape; };
  return a.kind == b.kind && a.reduce == b.reduce && a.dtype == b.dtype && a.dim == b.dim &&
         a.concat_dim == b.concat_dim && a.sources == b.sources &&
         std::ranges::equal(a.operands, b.operands, sameShape);
}

/// What distinguishes calls that otherwise look the same.
std::pair<uint32_t, uint32_t> momentOf(const ProgramFacts &program, const Site &site) {
  return {site.step, program.program.schedule[site.call].microbatch()};
}

} // namespace

std::string compareMessages(const RankClasses &classes, const std::vector<Traffic> &traffic) {
  std::map<Channel, bool> isReceived;
  for (const Traffic &sender : traffic)
    for (const auto &[channel, list] : sender.sent)
      isReceived[channel] = false;
  for (size_t receiver = 0; receiver < traffic.size(); ++receiver)
    for (const auto &[channel, list] : traffic[receiver].received) {
      isReceived[channel] = true;
      if (std::string wrong = ChannelComparison(classes, traffic, channel, receiver).run();
          !wrong.empty())
        return wrong;
    }
  for (const auto &[channel, received] : isReceived)
    if (!received)
      return locate(classes, traffic, channel.sender,
                    traffic[channel.sender].sent.at(channel).front().site) +
             "sends a message that nobody receives";
  return {};
}

std::string compareGroupCalls(const RankClasses &classes, const std::vector<Traffic> &traffic) {
  static const std::vector<GroupCall> none;
  auto callsOf = [&](size_t who, uint32_t communicator) -> const std::vector<GroupCall> & {
    auto it = traffic[who].groupCalls.find(communicator);
    return it == traffic[who].groupCalls.end() ? none : it->second;
  };
  for (size_t who = 0; who < traffic.size(); ++who)
    for (const auto &[communicator, calls] : traffic[who].groupCalls)
      for (uint32_t other : classes.membersOf(communicator)) {
        const std::vector<GroupCall> &theirs = callsOf(other, communicator);
        for (size_t i = 0; i < calls.size(); ++i) {
          std::string where = locate(classes, traffic, who, calls[i].site);
          if (i == theirs.size())
            return where + "is a collective that " + classes.describe(other) +
                   " of its group doesn't make";
          if (!isSameCall(*calls[i].op, *theirs[i].op) ||
              momentOf(*traffic[who].program, calls[i].site) !=
                  momentOf(*traffic[other].program, theirs[i].site))
            return where + "is another collective than that of " +
                   locate(classes, traffic, other, theirs[i].site) + "in its group";
        }
      }
  return {};
}

namespace {

/// All queues of all classes, carried out as far as they come.
class Rendezvous {
public:
  Rendezvous(const RankClasses &classes, const std::vector<Traffic> &traffic)
      : classes(classes), traffic(traffic), states(traffic.size()) {
    for (size_t who = 0; who < traffic.size(); ++who) {
      states[who].resize(traffic[who].events.size());
      for (uint32_t event = 0; event < traffic[who].events.size(); ++event)
        queues[{who, traffic[who].events[event].queue}].events.push_back(event);
    }
    enterMeetings();
  }

  std::string run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (auto &[key, queue] : queues)
        progress |= advance(key.first, queue);
    }
    for (auto &[key, queue] : queues)
      if (queue.next < queue.events.size())
        return locate(classes, traffic, key.first,
                      traffic[key.first].events[queue.events[queue.next]].site) +
               "waits for ever";
    return {};
  }

private:
  struct State {
    int32_t meeting = -1;
    bool arrived = false, done = false;
  };
  struct Meeting {
    uint32_t needed = 0, arrived = 0;
  };
  struct Queue {
    std::vector<uint32_t> events;
    size_t next = 0;
  };

  /// Both sides of a message and all members of a collective meet.
  void enterMeetings() {
    std::map<std::pair<Channel, size_t>, int32_t> messages;
    std::map<std::pair<uint32_t, size_t>, int32_t> collectives;
    for (size_t who = 0; who < traffic.size(); ++who) {
      for (const auto *lists : {&traffic[who].sent, &traffic[who].received})
        for (const auto &[channel, list] : *lists)
          for (size_t i = 0; i < list.size(); ++i)
            enter(who, list[i].event, messages.try_emplace({channel, i}, meetings.size()));
      for (const auto &[communicator, calls] : traffic[who].groupCalls)
        for (size_t i = 0; i < calls.size(); ++i)
          enter(who, calls[i].event, collectives.try_emplace({communicator, i}, meetings.size()));
    }
  }

  template <typename Inserted> void enter(size_t who, uint32_t event, Inserted inserted) {
    if (inserted.second)
      meetings.emplace_back();
    states[who][event].meeting = inserted.first->second;
    ++meetings[inserted.first->second].needed;
  }

  bool advance(size_t who, Queue &queue) {
    bool progress = false;
    for (; queue.next < queue.events.size(); ++queue.next, progress = true) {
      const Event &event = traffic[who].events[queue.events[queue.next]];
      State &state = states[who][queue.events[queue.next]];
      if (!std::ranges::all_of(event.waits, [&](uint32_t i) { return states[who][i].done; }))
        break;
      if (state.meeting >= 0) {
        Meeting &meeting = meetings[state.meeting];
        if (!state.arrived) {
          state.arrived = progress = true;
          ++meeting.arrived;
        }
        if (meeting.arrived < meeting.needed)
          break;
      }
      state.done = true;
    }
    return progress;
  }

  const RankClasses &classes;
  const std::vector<Traffic> &traffic;
  std::vector<std::vector<State>> states; ///< by class and event
  std::map<std::pair<size_t, uint32_t>, Queue> queues;
  std::vector<Meeting> meetings;
};

} // namespace

std::string findDeadlock(const RankClasses &classes, const std::vector<Traffic> &traffic) {
  return Rendezvous(classes, traffic).run();
}

} // namespace dtc::replay
