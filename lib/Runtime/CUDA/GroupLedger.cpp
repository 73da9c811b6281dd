#include "GroupLedger.h"

#include <algorithm>

namespace dtc::rt::cuda {
namespace {

std::string rankText(int rank) { return "rank " + std::to_string(rank); }

} // namespace

GroupLedger::GroupLedger(std::vector<int> ranks)
    : joined(ranks.size()), members(std::move(ranks)), counts(members.size()) {}

Result<ncclUniqueId> GroupLedger::join(int position, const Nccl &nccl) {
  std::lock_guard lock(mutex);
  if (!id) {
    ncclUniqueId made;
    DTC_CUDA_TRY(DTC_CUDA_CALL(nccl, ncclGetUniqueId, &made));
    id = made;
  }
  joined[position] = true;
  return *id;
}

void GroupLedger::takePart(int position) {
  std::lock_guard lock(mutex);
  joined[position] = true;
}

Status GroupLedger::enter(int position, std::shared_ptr<const ExchangeCall> call) {
  std::lock_guard lock(mutex);
  size_t index = counts[position]++ - firstEntry;
  if (index == entries.size())
    entries.push_back({std::move(call), position});
  else if (entries[index].call->signature != call->signature)
    return differ(entries[index], {std::move(call), position});
  for (uint64_t least = *std::ranges::min_element(counts); firstEntry < least; ++firstEntry)
    entries.pop_front();
  return Status::ok();
}

Status GroupLedger::differ(const Entry &first, const Entry &second) const {
  auto rankOf = [&](const Entry &entry) { return rankText(members[entry.position]); };
  if (first.call->isMessage) {
    const Entry &sent = first.position == 0 ? first : second;
    const Entry &received = first.position == 0 ? second : first;
    return failed(rankOf(sent) + " sends " + sent.call->signature + " at " + sent.call->name +
                  ", but what is received at " + received.call->name + " by " + rankOf(received) +
                  " has " + received.call->signature);
  }
  return failed(rankOf(first) + " calls " + first.call->signature + " at " + first.call->name +
                ", but " + rankOf(second) + " calls " + second.call->signature + " at " +
                second.call->name);
}

uint64_t GroupLedger::activityOfOthers(int position) const {
  std::lock_guard lock(mutex);
  uint64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (static_cast<int>(i) != position)
      total += counts[i] + joined[i];
  return total;
}

std::optional<GroupLedger::Missing> GroupLedger::missing(int position) const {
  std::lock_guard lock(mutex);
  Missing result;
  for (size_t i = 0; i < members.size(); ++i)
    if (!joined[i])
      result.ranks.push_back(members[i]);
  if (!result.ranks.empty())
    return result;
  uint64_t least = *std::ranges::min_element(counts);
  if (counts[position] == least)
    return std::nullopt;
  result.call = entries.front().call;
  for (size_t i = 0; i < members.size(); ++i)
    if (counts[i] == least)
      result.ranks.push_back(members[i]);
  return result;
}

std::shared_ptr<GroupLedger> LedgerBook::find(const GroupKey &key) {
  std::lock_guard lock(mutex);
  std::shared_ptr<GroupLedger> &ledger = ledgers[key];
  if (!ledger)
    ledger = std::make_shared<GroupLedger>(key.ranks);
  return ledger;
}

} // namespace dtc::rt::cuda
