#include "ProcessLedger.h"

#include "GatherTexts.h"

#include <algorithm>
#include <numeric>

namespace dtc::rt::cuda {

using nlohmann::json;

namespace {

constexpr auto kLeastPause = std::chrono::milliseconds(2);
constexpr auto kMostPause = std::chrono::milliseconds(100);

std::string hexOf(const ncclUniqueId &id) {
  constexpr const char *kDigits = "0123456789abcdef";
  std::string text;
  for (char byte : id.internal)
    for (int shift : {4, 0})
      text += kDigits[static_cast<unsigned char>(byte) >> shift & 15];
  return text;
}

std::optional<ncclUniqueId> idOf(const std::string &text) {
  ncclUniqueId id;
  if (text.size() != 2 * sizeof(id.internal))
    return std::nullopt;
  for (size_t i = 0; i < sizeof(id.internal); ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

} // namespace

int ProcessLedger::positionOf(int rank) const {
  return static_cast<int>(std::ranges::find(ranks(), rank) - ranks().begin());
}

Result<ncclUniqueId> ProcessLedger::join(int position, const Nccl &nccl) {
  if (book.communicator.rank() != *std::ranges::min_element(ranks())) {
    book.tellJoin(number, name, ranks(), "");
    return awaitId(position);
  }
  Result<ncclUniqueId> made = GroupLedger::join(position, nccl);
  if (made)
    book.tellJoin(number, name, ranks(), hexOf(*made));
  return made;
}

Result<ncclUniqueId> ProcessLedger::awaitId(int position) {
  std::chrono::milliseconds limit = book.communicator.timeLimit();
  auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex);
  joined[position] = true;
  while (!id) {
    if (Status status = book.communicator.check(); !status.isOk())
      return status;
    if (std::chrono::steady_clock::now() > end) {
      auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit).count();
      return Status(ErrorCategory::RankLost,
                    "rank " + std::to_string(book.communicator.rank()) + " waited " +
                        std::to_string(seconds) + " s for the start of a communicator by rank: " +
                        std::to_string(*std::ranges::min_element(ranks())));
    }
    changed.wait_for(lock, kMostPause);
  }
  return *id;
}

void ProcessLedger::takePart(int position) {
  GroupLedger::takePart(position);
  book.tellJoin(number, name, ranks(), "");
}

Status ProcessLedger::enter(int position, std::shared_ptr<const ExchangeCall> call) {
  book.tellCall(number, call);
  return GroupLedger::enter(position, std::move(call));
}

void ProcessLedger::hearJoin(int rank, const std::string &idBytes) {
  std::lock_guard lock(mutex);
  joined.at(static_cast<size_t>(positionOf(rank))) = true;
  if (std::optional<ncclUniqueId> made = idOf(idBytes))
    id = made;
  changed.notify_all();
}

Status ProcessLedger::hearCall(int rank, std::shared_ptr<const ExchangeCall> call) {
  return GroupLedger::enter(positionOf(rank), std::move(call));
}

ProcessLedgerBook::ProcessLedgerBook(Communicator &communicator)
    : communicator(communicator), queue(communicator.forNews("ledgers")) {
  queue->setPurpose("the list of calls");
  thread = std::thread([this] {
    try {
      exchangeNews();
    } catch (const std::exception &error) {
      queue->abort(failed(std::string("the news of another rank can't be read: ") + error.what()));
    }
  });
}

ProcessLedgerBook::~ProcessLedgerBook() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  wake.notify_all();
  thread.join();
}

std::shared_ptr<ProcessLedger> ProcessLedgerBook::findOwn(const GroupKey &key) {
  std::lock_guard lock(mutex);
  std::shared_ptr<ProcessLedger> &ledger = ledgers[key];
  if (!ledger)
    ledger = std::make_shared<ProcessLedger>(*this, ledgers.size() - 1, key);
  return ledger;
}

void ProcessLedgerBook::tellJoin(size_t ledger, const std::string &name,
                                 const std::vector<int> &ranks, const std::string &idBytes) {
  {
    std::lock_guard lock(mutex);
    joins.push_back({ledger, name, ranks, idBytes});
  }
  wake.notify_all();
}

void ProcessLedgerBook::tellCall(size_t ledger, const std::shared_ptr<const ExchangeCall> &call) {
  std::lock_guard lock(mutex);
  auto [known, isNew] = callNumbers.try_emplace(call.get(), callNumbers.size());
  if (isNew) {
    told.push_back(call);
    newCalls.push_back({call->kind, call->name, call->signature, call->isMessage});
  }
  entered.push_back({ledger, known->second});
}

std::string ProcessLedgerBook::takeNews(bool isEnd) {
  std::lock_guard lock(mutex);
  json news;
  for (auto [name, from] :
       {std::pair("joins", &joins), {"calls", &newCalls}, {"entered", &entered}})
    news[name] = from->is_null() ? json::array() : std::exchange(*from, nullptr);
  news["end"] = isEnd;
  return news.dump();
}

Result<bool> ProcessLedgerBook::hear(int rank, const json &news) {
  Peer &peer = peers[rank];
  for (const json &item : news.at("calls"))
    peer.calls.push_back(std::make_shared<ExchangeCall>(
        ExchangeCall{item.at(0), item.at(1), item.at(2), item.at(3)}));
  for (const json &item : news.at("joins")) {
    GroupKey key{item.at(1), item.at(2)};
    std::shared_ptr<ProcessLedger> &ledger = peer.ledgers[item.at(0)];
    if (std::ranges::count(key.ranks, communicator.rank()) == 0)
      continue;
    ledger = findOwn(key);
    ledger->hearJoin(rank, item.at(3));
  }
  for (const json &item : news.at("entered"))
    if (const auto &ledger = peer.ledgers.at(item.at(0)))
      if (Status status = ledger->hearCall(rank, peer.calls.at(item.at(1))); !status.isOk())
        return status;
  return !news.at("joins").empty();
}

/// Rounds in which all take part whose end nobody has heard of. They are far apart once nobody
/// begins to take part in a group any more.
void ProcessLedgerBook::exchangeNews() {
  std::vector<int> members(static_cast<size_t>(communicator.worldSize()));
  std::iota(members.begin(), members.end(), 0);
  std::chrono::milliseconds pause = kLeastPause;
  for (bool isEnd = false; !isEnd;) {
    {
      std::unique_lock lock(mutex);
      wake.wait_for(lock, pause, [&] { return isEnding || !joins.is_null(); });
      isEnd = isEnding;
    }
    Result<std::vector<std::string>> texts = gatherTexts(*queue, members, takeNews(isEnd));
    if (!texts)
      return;
    std::vector<int> remaining;
    bool isBeginning = false;
    for (size_t i = 0; i < members.size(); ++i) {
      json news = json::parse((*texts)[i]);
      if (!news.at("end").get<bool>())
        remaining.push_back(members[i]);
      if (members[i] == communicator.rank())
        continue;
      Result<bool> heard = hear(members[i], news);
      if (!heard)
        return queue->abort(heard.status());
      isBeginning |= *heard;
    }
    members = std::move(remaining);
    pause = isBeginning ? kLeastPause : std::min(2 * pause, kMostPause);
  }
}

} // namespace dtc::rt::cuda
