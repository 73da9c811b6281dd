// Messages between one queue of a rank and the same queue of its peers.
//
// All messages of an exchange are on their way at once, so ranks that send to each other don't
// wait for each other. Each begins with what the sender calls; the receiver compares.
#pragma once

#include "Peers.h"

namespace dtc::rt {

/// What a rank calls: compared between both ends, and said in errors.
struct ExchangeCall {
  const char *name = "";
  const char *purpose = "";
  uint64_t signature = 0; ///< equal for calls that fit each other
};

class Exchange {
public:
  enum class Use { Steps, News };
  /// `queue`: exchanges meet those of the same name. No rank is held up by news.
  Exchange(ProcessWorld::Impl &world, std::string queue, Use use);
  ~Exchange();

  /// At most one of each kind for a peer.
  struct Outgoing {
    int peer;
    std::vector<SendBlock> blocks;
  };
  struct Incoming {
    int peer;
    std::vector<ReceiveBlock> blocks;
  };
  /// Returns when all is received, and what is sent may be reused. The lists stay as they are.
  Status run(const ExchangeCall &call, std::span<const Outgoing> outgoing,
             std::span<const Incoming> incoming);

private:
  struct Head {
    uint64_t signature, bytes;
  };
  template <typename Buffer> struct Message {
    int peer;
    Head head;
    std::vector<Buffer> buffers;
    uint64_t bytes = 0; ///< without the head
    bool isComplete = false;
  };
  using Sent = Message<asio::const_buffer>;
  using Received = Message<asio::mutable_buffer>;

  Status connect(const ExchangeCall &call, int peer);
  Status prepare(const ExchangeCall &call, std::span<const Outgoing> outgoing,
                 std::span<const Incoming> incoming);
  void start(Sent &message);
  void start(Received &message);
  /// How many bytes of a message to move next; notes that something has moved.
  template <typename Buffer>
  size_t goOn(Message<Buffer> &message, std::error_code error, size_t done);
  bool fits(const Received &message) const {
    return message.head.signature == signature && message.head.bytes == message.bytes;
  }
  template <typename Buffer> void finish(Message<Buffer> &message, std::error_code error);
  /// The ranks whose messages are missing, or that don't take what is sent to them.
  std::vector<int> missingRanks() const;
  Status await(const ExchangeCall &call);
  Status differ(const ExchangeCall &call, const Received &message) const;
  Status timedOut(const ExchangeCall &call, const std::vector<int> &missing);

  ProcessWorld::Impl &world;
  std::string queue;
  asio::io_context io{1}; // for one thread; destroyed after the sockets
  Waiter waiter;
  std::map<int, asio::ip::tcp::socket> sockets;
  uint64_t signature = 0; ///< of the call under way, likewise below
  std::vector<Sent> sent;
  std::vector<Received> received;
  size_t pending = 0;
  int lostPeer = -1;
  std::string lostWhy;
  std::chrono::steady_clock::time_point lastMoved;
};

} // namespace dtc::rt
