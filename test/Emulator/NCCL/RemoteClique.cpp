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

enum class Request : uint32_t {
  Join,
  IsComplete,
  AwaitComplete,
  Meet,
  Exchange,
  Split,
  Abort,
  Failure
};

/// What a rank asks; messages and what is sent follow. Both ends are the same program.
struct Question {
  Request request;
  uint32_t rank;
  uint64_t size;     ///< of the clique
  uint64_t messages; ///< of an exchange
  uint64_t number;   ///< of a split, as color and key
  int32_t color, key;
  Contribution part;
  char name[128];
};

/// A text of `bytes` follows, or what is received.
struct Answer {
  int32_t fault = 0;   ///< its code; 0: none
  uint32_t isTrue = 0; ///< of a fault: it was printed
  uint64_t bytes = 0;
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
    auto *at = static_cast<const char *>(data);
    while (bytes > 0) {
      ssize_t count = ::send(descriptor, at, bytes, MSG_NOSIGNAL);
      if (count <= 0)
        lost();
      at += count;
      bytes -= static_cast<size_t>(count);
    }
  }
  void receive(void *data, size_t bytes) const {
    auto *at = static_cast<char *>(data);
    while (bytes > 0) {
      ssize_t count = ::recv(descriptor, at, bytes, 0);
      if (count <= 0)
        lost();
      at += count;
      bytes -= static_cast<size_t>(count);
    }
  }
  template <typename T> void send(const T &value) const { send(&value, sizeof(T)); }
  template <typename T> T receive() const {
    T value;
    receive(&value, sizeof(T));
    return value;
  }
  [[noreturn]] static void lost() {
    throw Fault(ncclRemoteError, "NCCL: the process that made the communicator has ended", true);
  }

  int descriptor;
};

/// An abstract address: nothing is left in the file system.
struct Address {
  explicit Address(const std::string &name) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), kMostBytes));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                    std::min(name.size(), kMostBytes));
  }
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address); }

  static constexpr size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1;
  sockaddr_un address{};
  socklen_t length;
};

/// "NAME:3" is the fourth clique of the process that answers at NAME.
std::string serverOf(const std::string &clique) { return clique.substr(0, clique.find(':')); }

class Server {
public:
  Server() {
    std::random_device random;
    name = "dtc-emulated-nccl-" + std::to_string(::getpid()) + "-" + std::to_string(random());
    int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Address address(name);
    if (descriptor < 0 || ::bind(descriptor, address.get(), address.length) != 0 ||
        ::listen(descriptor, SOMAXCONN) != 0)
      throw Fault(ncclSystemError, "NCCL: no socket for the communicators of this process");
    std::thread([descriptor] {
      for (;;)
        if (int caller = ::accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC); caller >= 0)
          std::thread([caller] { answer(Socket(caller)); }).detach();
    }).detach();
  }

  std::string name;

private:
  static void answer(const Socket &socket) {
    try {
      auto question = socket.receive<Question>();
      try {
        carryOut(socket, question);
      } catch (const Fault &fault) {
        std::string text = fault.what();
        socket.send(Answer{fault.code, fault.isReported, text.size()});
        socket.send(text.data(), text.size());
      }
    } catch (const Fault &) { // the caller has ended
    }
  }

  static void carryOut(const Socket &socket, const Question &question) {
    std::shared_ptr<Clique> clique = cliqueNamed(question.name, question.size);
    std::string text;
    Answer answer;
    switch (question.request) {
    case Request::Join:
      clique->join(question.rank, nullptr);
      break;
    case Request::IsComplete:
      answer.isTrue = clique->isComplete();
      break;
    case Request::AwaitComplete:
      clique->awaitComplete(question.rank);
      break;
    case Request::Meet:
      return meet(socket, question, *clique);
    case Request::Exchange:
      return exchange(socket, question, *clique);
    case Request::Split:
      if (auto members =
              clique->split(question.rank, question.number, question.color, question.key)) {
        answer.isTrue = true;
        text.assign(reinterpret_cast<const char *>(members->data()),
                    members->size() * sizeof(unsigned));
      }
      break;
    case Request::Abort:
      clique->abort(question.rank);
      break;
    case Request::Failure:
      text = clique->failure();
      break;
    }
    answer.bytes = text.size();
    socket.send(answer);
    socket.send(text.data(), text.size());
  }

  static void meet(const Socket &socket, const Question &question, Clique &clique) {
    Contribution part = question.part;
    Range source = part.sourceRange(clique.size()), target = part.targetRange(clique.size());
    std::vector<std::byte> sent(source.end - source.begin), received(target.end - target.begin);
    socket.receive(sent.data(), sent.size());
    part.sourceBytes = sent.data();
    part.targetBytes = received.data();
    bool isDone = clique.meet(question.rank, part);
    socket.send(Answer{0, isDone, received.size()});
    socket.send(received.data(), received.size());
  }

  static void exchange(const Socket &socket, const Question &question, Clique &clique) {
    std::vector<Message> messages;
    std::vector<std::vector<std::byte>> data;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < question.messages; ++i)
      messages.push_back(socket.receive<Message>());
    for (Message &message : messages) {
      message.data = data.emplace_back(message.bytes()).data();
      if (message.isSend)
        socket.receive(message.data, message.bytes());
      else
        bytes += message.bytes();
    }
    bool isDone = clique.exchange(question.rank, messages);
    socket.send(Answer{0, isDone, bytes});
    for (const Message &message : messages)
      if (!message.isSend)
        socket.send(message.data, message.bytes());
  }
};

Server &server() {
  static auto *made = new Server;
  return *made;
}

class RemoteClique : public Clique {
public:
  using Clique::Clique;

  void join(unsigned rank, Device *) override { call(question(Request::Join, rank)); }
  bool isComplete() override {
    if (!wasComplete)
      wasComplete = call(question(Request::IsComplete)).first.isTrue;
    return wasComplete;
  }
  void awaitComplete(unsigned rank) override { call(question(Request::AwaitComplete, rank)); }

  bool meet(unsigned rank, const Contribution &part) override {
    Question asked = question(Request::Meet, rank);
    asked.part = part;
    Range source = part.sourceRange(size());
    Socket socket = ask(asked);
    socket.send(part.sourceBytes, source.end - source.begin);
    bool isDone = hear(socket).isTrue;
    if (isDone)
      socket.receive(part.targetBytes, part.targetRange(size()).end - part.target);
    return isDone;
  }

  bool exchange(unsigned rank, const std::vector<Message> &messages) override {
    Question asked = question(Request::Exchange, rank);
    asked.messages = messages.size();
    Socket socket = ask(asked);
    for (const Message &message : messages)
      socket.send(message);
    for (const Message &message : messages)
      if (message.isSend)
        socket.send(message.data, message.bytes());
    bool isDone = hear(socket).isTrue;
    for (const Message &message : messages)
      if (isDone && !message.isSend)
        socket.receive(message.data, message.bytes());
    return isDone;
  }

  std::optional<std::vector<unsigned>> split(unsigned rank, uint64_t number, int color,
                                             int key) override {
    Question asked = question(Request::Split, rank);
    asked.number = number;
    asked.color = color;
    asked.key = key;
    auto [answer, text] = call(asked);
    if (!answer.isTrue)
      return std::nullopt;
    std::vector<unsigned> members(text.size() / sizeof(unsigned));
    std::memcpy(members.data(), text.data(), text.size());
    return members;
  }

  void abort(unsigned rank) override {
    try {
      call(question(Request::Abort, rank));
    } catch (const Fault &) { // it has ended, and its ranks with it
    }
  }
  std::string failure() override {
    try {
      return call(question(Request::Failure)).second;
    } catch (const Fault &fault) {
      return fault.what();
    }
  }

private:
  Question question(Request request, unsigned rank = 0) const {
    Question asked{request, rank, size(), 0, 0, 0, 0, {}, {}};
    std::memcpy(asked.name, title().data(), std::min(title().size(), sizeof(asked.name) - 1));
    return asked;
  }
  Socket ask(const Question &asked) const {
    Address address(serverOf(title()));
    Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.descriptor, address.get(), address.length) != 0)
      Socket::lost();
    socket.send(asked);
    return socket;
  }
  static Answer hear(const Socket &socket) {
    auto answer = socket.receive<Answer>();
    if (answer.fault == 0)
      return answer;
    std::string text(answer.bytes, ' ');
    socket.receive(text.data(), text.size());
    throw Fault(answer.fault, text, answer.isTrue);
  }
  std::pair<Answer, std::string> call(const Question &asked) const {
    Socket socket = ask(asked);
    Answer answer = hear(socket);
    std::string text(answer.bytes, ' ');
    socket.receive(text.data(), text.size());
    return {answer, text};
  }

  std::atomic<bool> wasComplete{false};
};

} // namespace

std::string newCliqueName() {
  static std::atomic<unsigned> next{0};
  return server().name + ":" + std::to_string(next++);
}

std::shared_ptr<Clique> cliqueNamed(const std::string &name, size_t size) {
  if (serverOf(name) != server().name)
    return std::make_shared<RemoteClique>(name, size);
  static std::mutex mutex;
  static auto *cliques = new std::map<std::string, std::shared_ptr<Clique>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Clique> &clique = (*cliques)[name];
  if (!clique)
    clique = std::make_shared<LocalClique>(name, size);
  if (clique->size() != size)
    throw Fault(ncclInvalidArgument, "communicator " + name + " has " +
                                         std::to_string(clique->size()) + " ranks for one and " +
                                         std::to_string(size) + " for another");
  return clique;
}

} // namespace dtc::emulator
