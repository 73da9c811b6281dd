// Communicators whose ranks are processes.
//
// The process that makes a communicator's id serves its clique at a socket of this machine, which
// the id names. A rank of another process asks there, and a thread takes part in its place:
//
//   process 4711: rank 0 -> LocalClique <- a thread for rank 1 <-socket- RemoteClique <- rank 1
//
// So all that LocalClique checks is checked between processes too.
#include "Emulator/Device/Fault.h"
#include "Emulator/NCCL/Clique.h"

#include <cstring>
#include <random>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

/// Messages follow, and what is sent. Both ends are the same program.
struct AskedHead {
  Question question;
  char name[128]; ///< of the clique
  uint64_t size;  ///< likewise
  uint64_t messages;
};

/// A text follows, and what is received.
struct AnswerHead {
  int32_t fault = 0; ///< its code; 0: none
  bool isTrue = true, isReported = false;
  uint32_t rank = 0, ranks = 0;
  uint64_t textBytes = 0;
};

class Socket {
public:
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  ~Socket() {
    if (descriptor >= 0)
      ::close(descriptor);
  }

  void send(const void *data, size_t bytes) const {
    move(::send, static_cast<const char *>(data), bytes, MSG_NOSIGNAL);
  }
  void receive(void *data, size_t bytes) const {
    move(::recv, static_cast<char *>(data), bytes, 0);
  }
  template <typename T> void send(const T &value) const { send(&value, sizeof(T)); }
  template <typename T> T receive() const {
    T value;
    receive(&value, sizeof(T));
    return value;
  }
  [[noreturn]] static void lost() {
    throw Fault::reported(ncclRemoteError,
                          "NCCL: the process that made the communicator has ended");
  }

  int descriptor;

private:
  template <typename Move, typename Char>
  void move(Move &&some, Char *at, size_t bytes, int flags) const {
    while (bytes > 0) {
      ssize_t count = some(descriptor, at, bytes, flags);
      if (count <= 0)
        lost();
      at += count;
      bytes -= static_cast<size_t>(count);
    }
  }
};

/// An abstract address: nothing is left in the file system.
struct Address {
  explicit Address(const std::string &name) {
    const size_t bytes = std::min(name.size(), sizeof(address.sun_path) - 1);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), bytes);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address); }

  sockaddr_un address{};
  socklen_t length;
};

/// "NAME:3" is the fourth clique of the process that answers at NAME.
std::string serverOf(const std::string &clique) { return clique.substr(0, clique.find(':')); }

class Server {
public:
  Server() {
    name = concat("dtc-emulated-nccl-", ::getpid(), "-", std::random_device()());
    int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Address address(name);
    if (descriptor < 0 || ::bind(descriptor, address.get(), address.length) != 0 ||
        ::listen(descriptor, SOMAXCONN) != 0)
      throw Fault(ncclSystemError, "NCCL: no socket for the communicators of this process");
    std::thread([descriptor] {
      for (;;)
        if (int caller = ::accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC); caller >= 0)
          std::thread([caller] { serve(Socket(caller)); }).detach();
    }).detach();
  }

  std::string name;

private:
  static void serve(const Socket &socket) {
    try {
      auto asked = socket.receive<AskedHead>();
      Messages messages(asked.messages);
      socket.receive(messages.data(), messages.size() * sizeof(Message));
      std::vector<std::vector<std::byte>> data;
      for (Message &message : messages) {
        message.data = data.emplace_back(message.bytes()).data();
        if (message.isSend)
          socket.receive(message.data, message.bytes());
      }
      auto [head, text] = answer(asked, messages);
      socket.send(head);
      socket.send(text.data(), text.size());
      for (const Message &message : messages)
        if (head.fault == 0 && head.isTrue && !message.isSend)
          socket.send(message.data, message.bytes());
    } catch (const Fault &) { // the caller has ended
    }
  }

  static std::pair<AnswerHead, std::string> answer(const AskedHead &asked,
                                                   const Messages &messages) {
    try {
      Answer of = cliqueNamed(asked.name, asked.size)->ask(asked.question, messages);
      return {{0, of.isTrue, false, of.rank, of.ranks, of.text.size()}, of.text};
    } catch (const Fault &fault) {
      std::string text = fault.what();
      return {{fault.code, false, fault.isReported, 0, 0, text.size()}, text};
    }
  }
};

Server &server() {
  static auto *made = new Server;
  return *made;
}

class RemoteClique : public Clique {
public:
  using Clique::Clique;

  Answer ask(const Question &question, const Messages &messages) override {
    try {
      return askServer(question, messages);
    } catch (const Fault &fault) {
      // Where it has ended, its ranks have with it.
      if (question.request == Request::State || question.request == Request::Abort)
        return {.text = fault.what()};
      throw;
    }
  }

private:
  Answer askServer(const Question &question, const Messages &messages) const {
    Address address(serverOf(title));
    Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.descriptor, address.get(), address.length) != 0)
      Socket::lost();
    AskedHead asked{question, {}, size, messages.size()};
    asked.question.device = nullptr;
    std::memcpy(asked.name, title.data(), std::min(title.size(), sizeof(asked.name) - 1));
    socket.send(asked);
    socket.send(messages.data(), messages.size() * sizeof(Message));
    for (const Message &message : messages)
      if (message.isSend)
        socket.send(message.data, message.bytes());
    auto head = socket.receive<AnswerHead>();
    std::string text(head.textBytes, ' ');
    socket.receive(text.data(), text.size());
    if (head.fault != 0)
      throw head.isReported ? Fault::reported(head.fault, text) : Fault(head.fault, text);
    for (const Message &message : messages)
      if (head.isTrue && !message.isSend)
        socket.receive(message.data, message.bytes());
    return {head.isTrue, head.rank, head.ranks, text};
  }
};

} // namespace

std::string newCliqueName() {
  static std::atomic<unsigned> next{0};
  return concat(server().name, ":", next++);
}

std::shared_ptr<Clique> cliqueNamed(const std::string &name, size_t size) {
  if (serverOf(name) != server().name)
    return std::make_shared<RemoteClique>(name, size);
  static std::mutex mutex;
  static auto *cliques = new std::map<std::string, std::shared_ptr<Clique>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Clique> &clique = (*cliques)[name];
  if (!clique)
    clique = makeLocalClique(name, size);
  require(clique->size == size, ncclInvalidArgument, "communicator ", name, " has ", clique->size,
          " ranks for one and ", size, " for another");
  return clique;
}

} // namespace dtc::emulator
