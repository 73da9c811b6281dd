#include "Handshake.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>

namespace dtc::rt {
namespace {

using asio::ip::tcp;

using Nonce = std::array<uint8_t, 16>;
using Proof = std::array<uint8_t, 32>;

struct Greeting {
  char protocol[16] = "dtc-run ranks 3";
  Nonce nonce{};
};
struct Answer {
  Greeting greeting;
  Proof proof{};
};
struct Introduction {
  Claim claim;
  Proof proof{};
};
struct Taken {
  char word[8] = "taken";
};

Greeting makeGreeting() {
  Greeting greeting;
  if (RAND_bytes(greeting.nonce.data(), static_cast<int>(greeting.nonce.size())) != 1)
    throw std::system_error(std::make_error_code(std::errc::io_error));
  return greeting;
}

bool isOurs(const Greeting &greeting) {
  return std::memcmp(greeting.protocol, Greeting().protocol, sizeof(greeting.protocol)) == 0;
}

Proof prove(const std::string &token, const char *side, const Nonce &caller, const Nonce &listener,
            const Claim *claim = nullptr) {
  std::string text = side;
  text.append(reinterpret_cast<const char *>(caller.data()), caller.size());
  text.append(reinterpret_cast<const char *>(listener.data()), listener.size());
  if (claim)
    text.append(reinterpret_cast<const char *>(claim), sizeof(*claim));
  Proof proof;
  HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
       reinterpret_cast<const unsigned char *>(text.data()), text.size(), proof.data(), nullptr);
  return proof;
}

bool areEqual(const Proof &a, const Proof &b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

template <typename T> asio::awaitable<T> receive(tcp::socket &socket) {
  T value;
  co_await asio::async_read(socket, asio::buffer(&value, sizeof(value)), asio::use_awaitable);
  co_return value;
}

template <typename T> asio::awaitable<void> send(tcp::socket &socket, const T &value) {
  co_await asio::async_write(socket, asio::buffer(&value, sizeof(value)), asio::use_awaitable);
}

} // namespace

asio::awaitable<bool> callPeer(tcp::socket &socket, std::string token, Claim claim,
                               std::function<void()> proven) {
  Greeting own = makeGreeting();
  co_await send(socket, own);
  Answer answer = co_await receive<Answer>(socket);
  const Nonce &theirs = answer.greeting.nonce;
  if (!isOurs(answer.greeting) ||
      !areEqual(answer.proof, prove(token, "listener", own.nonce, theirs)))
    co_return false;
  proven();
  Introduction introduction{claim, prove(token, "caller", own.nonce, theirs, &claim)};
  co_await send(socket, introduction);
  co_await receive<Taken>(socket);
  co_return true;
}

asio::awaitable<std::optional<Claim>> answerCaller(tcp::socket &socket, std::string token) {
  Greeting caller = co_await receive<Greeting>(socket);
  if (!isOurs(caller))
    co_return std::nullopt;
  Answer answer{makeGreeting(), {}};
  answer.proof = prove(token, "listener", caller.nonce, answer.greeting.nonce);
  co_await send(socket, answer);
  Introduction introduction = co_await receive<Introduction>(socket);
  Proof expected = prove(token, "caller", caller.nonce, answer.greeting.nonce, &introduction.claim);
  if (!areEqual(introduction.proof, expected))
    co_return std::nullopt;
  co_return introduction.claim;
}

asio::awaitable<void> takeClaim(tcp::socket &socket) { co_await send(socket, Taken()); }

} // namespace dtc::rt
