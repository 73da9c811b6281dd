// How two processes of a job find out that they are.
//
// Each proves with an HMAC over both ends' nonces that it knows the token, which itself is
// never sent:
//
//   caller     nonce c                                          ->
//          <-  nonce s, proof(token, "listener", c, s)              listener
//   caller     claim, proof(token, "caller", c, s, claim)       ->
//          <-  that the claim was taken                             listener
//
// The claim says which rank calls and for what. A stranger's connection is closed. So is that of a
// rank that takes too long, on a machine with much other work. It isn't told that its claim was
// taken, and so knows that it must call again.
#pragma once

#include "Asio.h"

#include <array>
#include <functional>
#include <optional>

namespace dtc::rt {

/// What a caller says of itself.
struct Claim {
  uint32_t rank = 0;
  uint32_t worldSize = 0;
  uint32_t port = 0; ///< that it listens at itself
  uint32_t isControl = 0;
  std::array<uint8_t, 32> stream{}; ///< of a connection for data: the digest of its name
};

/// All of these throw std::system_error where the connection fails.
/// False where the other end doesn't know the token. `proven` is called once it has shown that it
/// does. From then on it alone may end the connection, as it may have taken the claim.
asio::awaitable<bool> callPeer(asio::ip::tcp::socket &socket, std::string token, Claim claim,
                               std::function<void()> proven);
/// Nothing where it doesn't.
asio::awaitable<std::optional<Claim>> answerCaller(asio::ip::tcp::socket &socket,
                                                   std::string token);
/// Says that the claim is taken.
asio::awaitable<void> takeClaim(asio::ip::tcp::socket &socket);

} // namespace dtc::rt
