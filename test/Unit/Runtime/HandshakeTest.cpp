// How a rank meets others that give up a connection: it calls again. The others are this test.
#include "Processes/Handshake.h"

#include "dtc-rt/Processes/ProcessCommunicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <unistd.h>

using namespace dtc::rt;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

constexpr auto kLimit = 20s;

/// A rank that listens, and does what the test says.
class Listener {
public:
  explicit Listener(std::string token) : token(std::move(token)) {}
  uint16_t port() const { return acceptor.local_endpoint().port(); }

  /// The connection of the next caller that waits for an answer: on a busy machine one may give up
  /// before. Where it isn't taken, it is closed without a word.
  std::optional<tcp::socket> answer(bool takes) {
    std::optional<tcp::socket> result;
    auto meet = [&]() -> asio::awaitable<void> {
      while (!result) {
        tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
        try {
          std::optional<Claim> claim = co_await answerCaller(socket, token);
          if (takes && claim)
            co_await takeClaim(socket);
          result = std::move(socket);
        } catch (const std::system_error &) {
          continue; // that caller has gone
        }
      }
    };
    asio::co_spawn(io, meet, asio::detached);
    io.restart();
    io.run_for(kLimit);
    return result;
  }

private:
  std::string token;
  asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
};

/// Rank 0 tells where the ranks listen.
void sendTable(tcp::socket &leader, const std::string &table) {
  const uint32_t head[] = {0, static_cast<uint32_t>(table.size())};
  asio::write(leader, asio::buffer(head));
  asio::write(leader, asio::buffer(table));
}

} // namespace

TEST(Handshake, ARankCallsAgainWhereItWasGivenUp) {
  const std::string token = "tests of process " + std::to_string(::getpid());
  Listener leader(token), peer(token);
  Launch launch;
  launch.rank = launch.localRank = 1;
  launch.worldSize = launch.localWorldSize = 3;
  launch.port = leader.port();
  launch.token = token;

  Status sent = Status::ok();
  const std::string text = "to rank 2";
  std::thread rank([&] {
    auto world = ProcessWorld::connect(launch, kLimit);
    if (!world) {
      sent = world.status();
      return;
    }
    const SendBlock block{text.data(), text.size()};
    sent = (*world)->communicator(1)->send(2, 0, {&block, 1});
  });

  const bool gaveUpFirst = leader.answer(/*takes=*/false).has_value();
  std::optional<tcp::socket> control = leader.answer(/*takes=*/true), data;
  bool gaveUpAgain = false;
  if (control) {
    sendTable(*control, "2 127.0.0.1 " + std::to_string(peer.port()) + "\n");
    gaveUpAgain = peer.answer(/*takes=*/false).has_value();
    data = peer.answer(/*takes=*/true);
  }
  struct {
    uint64_t signature, bytes;
    char text[16];
  } message{};
  std::error_code error;
  if (data)
    asio::read(*data, asio::buffer(&message, 16 + text.size()), error);
  rank.join();

  EXPECT_TRUE(gaveUpFirst && gaveUpAgain);
  EXPECT_TRUE(sent.isOk()) << sent.message();
  EXPECT_EQ(message.bytes, text.size());
  EXPECT_EQ(message.text, text);
}
