#include "SizeClasses.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace dtc::twin {

/// Of what a rank has along a dimension, so many elements stay where there are as many.
static constexpr int64_t kLeastOnRank = 4;

/// So many are counted before a limit is reached, where it is as much.
static constexpr int64_t kLeastLimit = 2;

Atom SizeClasses::add(int64_t size, bool isPinned) {
  states.push_back({});
  states.back().size = states.back().divisor = size;
  states.back().isPinned = isPinned;
  return static_cast<Atom>(states.size() - 1);
}

Atoms SizeClasses::create(int64_t size) { return size == 1 ? Atoms() : Atoms{add(size, false)}; }

Atom SizeClasses::find(Atom atom) {
  while (states[atom].parent >= 0) {
    Atom above = states[states[atom].parent].parent;
    if (above >= 0)
      states[atom].parent = above; // so that the way gets shorter
    atom = states[atom].parent;
  }
  return atom;
}

Atoms SizeClasses::resolve(llvm::ArrayRef<Atom> atoms) {
  Atoms result;
  for (Atom atom : atoms) {
    Atom root = find(atom);
    if (states[root].parts.empty())
      result.push_back(root);
    else
      result.append(resolve(Atoms(states[root].parts)));
  }
  return result;
}

void SizeClasses::join(Atom a, Atom b) {
  states[b].parent = a;
  states[a].isPinned |= states[b].isPinned;
}

void SizeClasses::unify(llvm::ArrayRef<Atom> first, llvm::ArrayRef<Atom> second) {
  Atoms a = resolve(first), b = resolve(second);
  for (size_t i = 0; i < a.size() && i < b.size();) {
    if (a[i] == b[i]) {
      ++i;
      continue;
    }
    int64_t sizeA = states[a[i]].size, sizeB = states[b[i]].size;
    Atom large = sizeA > sizeB ? a[i] : b[i], small = sizeA > sizeB ? b[i] : a[i];
    int64_t sizeLarge = std::max(sizeA, sizeB), sizeSmall = std::min(sizeA, sizeB);
    if (sizeA == sizeB) {
      join(a[i], b[i]);
    } else if (sizeLarge % sizeSmall == 0) {
      bool isPinned = states[large].isPinned;
      Atom rest = add(sizeLarge / sizeSmall, isPinned);
      states[small].isPinned |= isPinned;
      states[large].parts = {small, rest};
    } else {
      pin(llvm::ArrayRef<Atom>(a).drop_front(i));
      pin(llvm::ArrayRef<Atom>(b).drop_front(i));
      return;
    }
    a = resolve(a);
    b = resolve(b);
  }
}

void SizeClasses::pin(llvm::ArrayRef<Atom> atoms) {
  for (Atom atom : resolve(atoms))
    states[atom].isPinned = true;
}

static int64_t smallestPrime(int64_t size) {
  for (int64_t factor = 2; factor * factor <= size; ++factor)
    if (size % factor == 0)
      return factor;
  return size;
}

/// Without what all of them have in common, but none below 2.
static std::vector<int64_t> dividedByCommon(llvm::ArrayRef<int64_t> ascending) {
  int64_t common = 0;
  for (int64_t size : ascending)
    common = std::gcd(common, size);
  while (common > 1 && ascending.front() / common < 2)
    common /= smallestPrime(common);
  std::vector<int64_t> result;
  for (int64_t size : ascending)
    result.push_back(size / common);
  return result;
}

std::vector<int64_t> smallAxes(llvm::ArrayRef<int64_t> ascending) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < ascending.size(); ++i) {
    int64_t before = i > 0 ? ascending[i - 1] : 1;
    if (ascending[i] % before != 0)
      return dividedByCommon(ascending);
    result.push_back((i > 0 ? result.back() : 1) * smallestPrime(ascending[i] / before));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// How they are scaled
//===----------------------------------------------------------------------===//

Atom SizeClasses::groupOf(Atom atom) const {
  while (states[atom].group >= 0)
    atom = states[atom].group;
  return atom;
}

void SizeClasses::tie(Atom a, Atom b, int64_t number) {
  Atom first = groupOf(a), second = groupOf(b);
  int64_t divisor = std::gcd(std::gcd(states[first].divisor, states[second].divisor), number);
  if (first != second)
    states[second].group = first;
  states[first].divisor = divisor;
}

void SizeClasses::split(llvm::ArrayRef<Atom> atoms, llvm::ArrayRef<Split> axes) {
  Atoms resolved = resolve(atoms);
  size_t at = 0;
  Split sofar{1, 1};
  auto note = [&] {
    if (sofar.ranks > 1)
      states[resolved[at]].splits.push_back(sofar);
  };
  for (const Split &axis : axes) {
    while (at < resolved.size() && states[resolved[at]].size == sofar.ranks) {
      note();
      sofar = {1, 1};
      ++at;
    }
    if (at == resolved.size() || states[resolved[at]].size / sofar.ranks % axis.ranks != 0)
      return pin(atoms); // an axis across atoms, or sizes that aren't divisible
    sofar = {sofar.ranks * axis.ranks, sofar.ranksInTwin * axis.ranksInTwin};
  }
  if (at < resolved.size())
    note();
}

void SizeClasses::keepMultiple(llvm::ArrayRef<Atom> atoms, int64_t number) {
  Atoms resolved = resolve(atoms);
  if (resolved.empty() || sizeOf(resolved) % number != 0)
    return;
  State &minor = states[resolved.back()];
  if (minor.size % number != 0)
    return pin(resolved);
  minor.multiple = std::lcm(minor.multiple, number);
}

bool SizeClasses::fits(const State &state, int64_t size) const {
  if (size < std::min(state.size, kLeastOnRank) || size % state.multiple != 0)
    return false;
  return std::all_of(state.splits.begin(), state.splits.end(), [&](const Split &split) {
    int64_t onRank = std::min(state.size / split.ranks, kLeastOnRank);
    return size % split.ranksInTwin == 0 && size / split.ranksInTwin >= onRank;
  });
}

bool SizeClasses::isPossible(Atom group, int64_t scale) const {
  const int64_t divisor = states[group].divisor;
  return std::all_of(members[group].begin(), members[group].end(), [&](Atom atom) {
    const State &state = states[atom];
    return !state.isPinned && fits(state, state.size / divisor * scale);
  });
}

void SizeClasses::solve() {
  const auto count = static_cast<Atom>(states.size());
  members.assign(states.size(), {});
  for (Atom atom = 0; atom < count; ++atom)
    if (states[atom].parent < 0 && states[atom].parts.empty())
      members[groupOf(atom)].push_back(atom);
  for (Atom group = 0; group < count; ++group) {
    int64_t scale = 1;
    while (scale < states[group].divisor && !isPossible(group, scale))
      ++scale;
    states[group].scale = scale;
  }
  fitLimits();
}

//===----------------------------------------------------------------------===//
// Limits of counts
//===----------------------------------------------------------------------===//

void SizeClasses::limit(llvm::ArrayRef<Atom> counted, int64_t number) {
  limits.push_back({Atoms(counted), number});
}

void SizeClasses::placeCounted(llvm::ArrayRef<Atom> counted, llvm::ArrayRef<Atom> atoms) {
  places.push_back({Atoms(counted), Atoms(atoms)});
}

bool SizeClasses::grow(llvm::ArrayRef<Atom> atoms) {
  for (Atom atom : llvm::reverse(resolve(atoms))) {
    Atom group = groupOf(atom);
    State &state = states[group];
    if (state.scale == state.divisor)
      continue;
    do
      ++state.scale;
    while (state.scale < state.divisor && !isPossible(group, state.scale));
    return true;
  }
  return false;
}

void SizeClasses::fitLimits() {
  for (const Limit &limit : limits)
    while (inProportion(limit.counted, limit.number) < std::min(limit.number, kLeastLimit) &&
           grow(limit.counted))
      ;
  for (const Places &each : places)
    while (sizeInTwin(each.atoms) < inProportion(each.counted, sizeOf(resolve(each.atoms))) &&
           grow(each.atoms))
      ;
}

int64_t SizeClasses::inProportion(llvm::ArrayRef<Atom> counted, int64_t number) {
  int64_t large = sizeOf(resolve(counted)), small = sizeInTwin(counted);
  int64_t common = std::gcd(large, small);
  return number * (small / common) / (large / common);
}

int64_t SizeClasses::limitInTwin(llvm::ArrayRef<Atom> counted, int64_t number) {
  for (const Places &each : places) {
    int64_t size = sizeOf(resolve(each.atoms));
    if (resolve(each.counted) == resolve(counted) && std::abs(number - size) == 1)
      return inProportion(counted, size) + number - size;
  }
  return inProportion(counted, number);
}

int64_t SizeClasses::sizeOf(llvm::ArrayRef<Atom> atoms) {
  int64_t size = 1;
  for (Atom atom : atoms)
    size *= states[find(atom)].size;
  return size;
}

int64_t SizeClasses::scaled(Atom atom, int64_t number) {
  const State &group = states[groupOf(atom)];
  return number * group.scale / group.divisor;
}

int64_t SizeClasses::sizeInTwin(llvm::ArrayRef<Atom> atoms) {
  int64_t size = 1;
  for (Atom atom : resolve(atoms))
    size *= scaled(atom, states[atom].size);
  return size;
}

} // namespace dtc::twin
