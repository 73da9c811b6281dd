#include "RankClasses.h"

namespace dtc::replay {

using rt::fbs::MessageKind;

std::string RankClasses::build(const std::vector<Role> &given) {
  roles = given;
  if (std::string wrong = enterRanks(); !wrong.empty())
    return wrong;
  if (std::string wrong = checkPeers(); !wrong.empty())
    return wrong;
  for (uint32_t role = 0; role < roles.size(); ++role)
    if (std::string wrong = enterGroups(role); !wrong.empty())
      return "role " + std::to_string(role) + ": " + wrong;
  refine();
  numberCommunicators();
  return {};
}

std::string RankClasses::describe(size_t classNumber) const {
  std::string text = "role " + std::to_string(roleIndex(classNumber)) + " (rank " +
                     std::to_string(representatives[classNumber]);
  if (sizes[classNumber] > 1)
    text += " and " + std::to_string(sizes[classNumber] - 1) + " more";
  return text + ")";
}

std::string RankClasses::enterRanks() {
  for (uint32_t role = 0; role < roles.size(); ++role)
    for (uint32_t position = 0; position < roles[role].ranks.size(); ++position) {
      int32_t rank = roles[role].ranks[position];
      if (!places.try_emplace(rank, Place{role, position}).second)
        return "two roles have rank " + std::to_string(rank);
      classes[rank] = role;
    }
  return {};
}

std::string RankClasses::checkPeers() const {
  for (uint32_t role = 0; role < roles.size(); ++role)
    for (const auto &list : roles[role].program->peers) {
      std::string where = "role " + std::to_string(role) + ": ";
      if (list->ranks.size() != roles[role].ranks.size())
        return where + "a list of peers has " + std::to_string(list->ranks.size()) +
               " entries for " + std::to_string(roles[role].ranks.size()) + " ranks";
      for (int32_t peer : list->ranks)
        if (peer != -1 && !places.contains(peer))
          return where + "a peer is no rank of any role: " + std::to_string(peer);
    }
  return {};
}

std::string RankClasses::enterGroups(uint32_t role) {
  const auto &groups = roles[role].program->groups;
  listOf.emplace_back(groups.size());
  for (uint32_t group = 0; group < groups.size(); ++group) {
    std::string where = "group " + std::to_string(group);
    std::vector<uint32_t> &ofPositions = listOf[role][group];
    ofPositions.assign(roles[role].ranks.size(), ~0u);
    for (const auto &list : groups[group]->lists) {
      if (list->ranks.size() != groups[group]->lists[0]->ranks.size())
        return where + " has lists of different lengths";
      uint32_t number = lists.try_emplace(list->ranks, lists.size()).first->second;
      for (int32_t rank : list->ranks) {
        auto place = places.find(rank);
        if (place == places.end())
          return where + " names a rank of no role: " + std::to_string(rank);
        if (place->second.role != role)
          continue;
        uint32_t &entry = ofPositions[place->second.position];
        if (entry != ~0u)
          return where + " names a rank twice: " + std::to_string(rank);
        entry = number;
      }
      groupsOf[{number, role}].push_back(group);
    }
    for (uint32_t position = 0; position < ofPositions.size(); ++position)
      if (ofPositions[position] == ~0u)
        return where + " lacks rank " + std::to_string(roles[role].ranks[position]);
  }
  return {};
}

int32_t RankClasses::peerOf(int32_t rank, uint32_t peers) const {
  const Place &place = at(rank);
  return roles[place.role].program->peers[peers]->ranks[place.position];
}

void RankClasses::appendPeersTo(int32_t rank, int32_t peer, Signature &signature) const {
  for (uint32_t peers = 0; peers < roles[at(rank).role].program->peers.size(); ++peers)
    if (peerOf(rank, peers) == peer)
      signature.push_back(peers);
  signature.push_back(~uint64_t(0));
}

uint32_t RankClasses::firstPeersTo(int32_t rank, int32_t peer) const {
  uint32_t peers = 0, count = roles[at(rank).role].program->peers.size();
  while (peers < count && peerOf(rank, peers) != peer)
    ++peers;
  return peers;
}

/// What tells a rank from others: its class, peers' classes with the lists that lead there
/// and back, and the classes of its groups' lists.
RankClasses::Signature RankClasses::signatureOf(int32_t rank,
                                                const std::vector<uint32_t> &listClasses) const {
  Signature signature = {classes.at(rank)};
  const Place &place = at(rank);
  for (uint32_t peers = 0; peers < roles[place.role].program->peers.size(); ++peers) {
    int32_t peer = peerOf(rank, peers);
    signature.push_back(peer == -1 ? ~uint64_t(0) : classes.at(peer));
    if (peer == -1)
      continue;
    appendPeersTo(rank, peer, signature);
    appendPeersTo(peer, rank, signature);
  }
  for (const std::vector<uint32_t> &ofPositions : listOf[place.role])
    signature.push_back(listClasses[ofPositions[place.position]]);
  return signature;
}

/// Numbers the lists of ranks so that equal numbers have members of equal classes, which
/// know the list as equal groups.
std::vector<uint32_t> RankClasses::classifyLists() const {
  std::vector<uint32_t> result(lists.size());
  std::map<std::set<std::vector<uint32_t>>, uint32_t> known;
  for (const auto &[ranks, number] : lists) {
    std::set<std::vector<uint32_t>> members;
    std::set<uint32_t> seen;
    for (int32_t rank : ranks) {
      if (!seen.insert(classes.at(rank)).second)
        continue;
      std::vector<uint32_t> member = {classes.at(rank)};
      if (auto groups = groupsOf.find({number, at(rank).role}); groups != groupsOf.end())
        member.insert(member.end(), groups->second.begin(), groups->second.end());
      members.insert(std::move(member));
    }
    result[number] = known.try_emplace(std::move(members), known.size()).first->second;
  }
  return result;
}

/// Divides classes by their ranks' signatures; false where nothing changes.
bool RankClasses::divide() {
  std::vector<uint32_t> listClasses = classifyLists();
  std::map<Signature, uint32_t> known;
  std::map<int32_t, uint32_t> divided;
  representatives.clear();
  sizes.clear();
  for (const Role &role : roles)
    for (int32_t rank : role.ranks) {
      auto [it, isNew] = known.try_emplace(signatureOf(rank, listClasses), known.size());
      if (isNew) {
        representatives.push_back(rank);
        sizes.push_back(0);
      }
      divided[rank] = it->second;
      ++sizes[it->second];
    }
  std::set<uint32_t> before;
  for (const auto &[rank, number] : classes)
    before.insert(number);
  classes = std::move(divided);
  return known.size() != before.size();
}

void RankClasses::refine() {
  while (divide()) {
  }
}

void RankClasses::numberCommunicators() {
  communicators = classifyLists();
  for (const auto &[ranks, number] : lists) {
    uint32_t communicator = communicators[number];
    if (communicatorMembers.size() <= communicator)
      communicatorMembers.resize(communicator + 1);
    if (!communicatorMembers[communicator].empty())
      continue;
    std::set<uint32_t> members;
    for (int32_t rank : ranks)
      members.insert(classes.at(rank));
    communicatorMembers[communicator].assign(members.begin(), members.end());
  }
}

std::optional<Channel> RankClasses::channelOf(size_t classNumber,
                                              const rt::fbs::MessageT &message) const {
  int32_t rank = representatives[classNumber], peer = peerOf(rank, message.peers);
  if (peer == -1)
    return std::nullopt;
  if (message.kind == MessageKind::Receive)
    std::swap(rank, peer);
  return Channel{classes.at(rank), firstPeersTo(rank, peer), message.channel};
}

Communicator RankClasses::communicatorOf(size_t classNumber, uint32_t group) const {
  const Place &place = at(representatives[classNumber]);
  uint32_t number = communicators[listOf[place.role][group][place.position]];
  return {number, communicatorMembers[number].size() > 1};
}

} // namespace dtc::replay
