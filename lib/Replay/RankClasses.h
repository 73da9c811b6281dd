// Ranks that can't be told apart, so that one of them stands for all.
//
// At first all ranks of a role are one class. Then a class is divided where its ranks' peers, or
// the members of their groups, are of different classes, until nothing changes (partition
// refinement). Ranks of a class execute the same program, and get messages from ranks of equal
// classes by equal lists. So they do the same at every moment. Two roles, peers of role 0: [2, 3],
// of role 1: [0, 1]:
//
//   rank 0 -> rank 2      classes {0, 1} and {2, 3}: two replays for four ranks.
//   rank 1 -> rank 3      With peers [2, -1] they would be {0}, {1}, {2} and {3}.
#pragma once

#include "dtc/Replay/ReplayPrograms.h"

#include <compare>
#include <map>
#include <optional>

namespace dtc::replay {

/// Messages from the ranks of a class to those that a list of peers leads to.
struct Channel {
  uint32_t sender = 0; ///< class
  uint32_t peers = 0;  ///< of the sender's program: the first list with this receiver
  uint32_t number = 0; ///< Message.channel
  auto operator<=>(const Channel &) const = default;
};

/// A group as its members' classes know it. `classes` say who takes part.
struct Communicator {
  uint32_t number = 0;
  bool isShared = false; ///< by several classes
};

class RankClasses {
public:
  /// Empty, or what is wrong with roles, peers and groups.
  std::string build(const std::vector<Role> &roles);

  size_t size() const { return representatives.size(); }
  const Role &roleOf(size_t classNumber) const { return roles[roleIndex(classNumber)]; }
  size_t roleIndex(size_t classNumber) const { return at(representatives[classNumber]).role; }
  int32_t representative(size_t classNumber) const { return representatives[classNumber]; }
  /// "role 1 (rank 4 and 3 more)"
  std::string describe(size_t classNumber) const;

  /// The channel of a message; none where the rank takes no part.
  std::optional<Channel> channelOf(size_t classNumber, const rt::fbs::MessageT &message) const;
  Communicator communicatorOf(size_t classNumber, uint32_t group) const;
  /// The classes that take part in a shared communicator.
  const std::vector<uint32_t> &membersOf(uint32_t communicator) const {
    return communicatorMembers[communicator];
  }

private:
  struct Place {
    uint32_t role, position;
  };
  using Signature = std::vector<uint64_t>;

  std::string enterRanks();
  std::string checkPeers() const;
  std::string enterGroups(uint32_t role);
  void refine();
  bool divide();
  Signature signatureOf(int32_t rank, const std::vector<uint32_t> &listClasses) const;
  std::vector<uint32_t> classifyLists() const;
  void numberCommunicators();

  const Place &at(int32_t rank) const { return places.at(rank); }
  /// The world rank that a list of peers says, or -1.
  int32_t peerOf(int32_t rank, uint32_t peers) const;
  /// The lists of peers of `rank` that lead to `peer`.
  void appendPeersTo(int32_t rank, int32_t peer, Signature &signature) const;
  uint32_t firstPeersTo(int32_t rank, int32_t peer) const;

  std::vector<Role> roles;
  std::map<int32_t, Place> places;       ///< by world rank
  std::map<int32_t, uint32_t> classes;   ///< by world rank
  std::vector<int32_t> representatives;  ///< by class: its first rank
  std::vector<uint32_t> sizes;           ///< by class
  std::map<std::vector<int32_t>, uint32_t> lists; ///< all lists of groups, numbered
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> groupsOf; ///< by list and role
  /// By role and group, then by position: the list that the rank is in.
  std::vector<std::vector<std::vector<uint32_t>>> listOf;
  std::vector<uint32_t> communicators; ///< by list
  std::vector<std::vector<uint32_t>> communicatorMembers;
};

} // namespace dtc::replay
