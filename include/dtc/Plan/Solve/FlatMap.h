// A map from numbers that aren't negative, for what is asked for millions of times. From the slot
// of a key's hash on, the first slot that has the key or none is its place (open addressing).
// Entries stay where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace dtc::plan {

template <typename T> class FlatMap {
public:
  /// nullptr: it isn't there.
  T *find(int64_t key) {
    const Slot &slot = slots[placeOf(key)];
    return slot.key == key ? &entries[slot.entry] : nullptr;
  }
  /// Of a key that isn't there.
  T &add(int64_t key) {
    if (2 * (entries.size() + 1) > slots.size())
      grow();
    slots[placeOf(key)] = {key, entries.size()};
    return entries.emplace_back();
  }

private:
  struct Slot {
    int64_t key = -1; ///< -1: empty
    size_t entry = 0;
  };

  size_t placeOf(int64_t key) const {
    uint64_t hash = static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15u;
    size_t place = (hash >> 32) & (slots.size() - 1);
    while (slots[place].key != key && slots[place].key >= 0)
      place = (place + 1) & (slots.size() - 1);
    return place;
  }
  void grow() {
    std::vector<Slot> old(2 * slots.size());
    old.swap(slots);
    for (const Slot &slot : old)
      if (slot.key >= 0)
        slots[placeOf(slot.key)] = slot;
  }

  std::vector<Slot> slots = std::vector<Slot>(16); ///< as many as a power of two
  std::deque<T> entries;
};

} // namespace dtc::plan
