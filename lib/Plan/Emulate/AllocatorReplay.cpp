#include "dtc/Plan/Emulate/AllocatorReplay.h"

#include "CachingAllocator.h"

#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/ForwardPasses.h"
#include "dtc/Schedule/Groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace dtc::plan {

using schedule::Call;
using schedule::Pass;

namespace {

constexpr int kComputeStream = 0, kGatherStream = 1, kScatterStream = 2;
constexpr int kNone = -1;
/// Of what is gathered or scattered, blocks at a time.
constexpr size_t kAhead = 2;

class Replay {
public:
  Replay(const RankRequests &rank, int64_t capacity, size_t held)
      : rank(rank), memory(capacity), held(held) {}
  std::optional<int64_t> run(const std::vector<Call> &calls);

private:
  using Blocks = std::vector<int>;

  int request(int64_t bytes, int stream = kComputeStream);
  Blocks requestAll(const std::vector<int64_t> &bytes, int stream = kComputeStream);
  void freeFirst(Blocks &blocks, size_t rest);
  void freeAll(Blocks &blocks) { freeFirst(blocks, 0); }
  Blocks passThrough(const std::vector<int64_t> &bytes, bool forward, int stream);
  void release(int block, AllocationEvent::Action action);
  void call(const Call &made);
  void carryOut(const std::vector<AllocationEvent> &events, const Call &made, Blocks &held);
  void addToSums();
  void updateStates();
  void update();

  const RankRequests &rank;
  CachingAllocator memory;
  size_t held;      ///< so many variables hold their tensors
  Blocks variables; ///< these, the first to go first
  bool failed = false, hasStates = false;
  std::vector<std::vector<Blocks>> owned; ///< by chunk and slot: block of each buffer
  std::vector<Blocks> gradients;         ///< that stay, by chunk
  std::vector<int64_t> sizes;            ///< of those that the call left
  std::vector<int32_t> keeps; ///< by chunk: this step's first microbatch to come back, or kNone
};

} // namespace

int Replay::request(int64_t bytes, int stream) {
  std::optional<int> block = bytes > 0 && !failed ? memory.allocate(bytes, stream) : std::nullopt;
  failed |= bytes > 0 && !block;
  return block.value_or(kNone);
}

Replay::Blocks Replay::requestAll(const std::vector<int64_t> &bytes, int stream) {
  Blocks blocks;
  for (int64_t each : bytes)
    blocks.push_back(request(each, stream));
  return blocks;
}

/// All but the last ones.
void Replay::freeFirst(Blocks &blocks, size_t rest) {
  auto end = blocks.end() - static_cast<ptrdiff_t>(std::min(rest, blocks.size()));
  for (auto it = blocks.begin(); it != end; ++it)
    if (*it != kNone)
      memory.free(*it);
  blocks.erase(blocks.begin(), end);
}

/// The requests of one pass; the last ones stay until its end.
Replay::Blocks Replay::passThrough(const std::vector<int64_t> &bytes, bool forward, int stream) {
  Blocks blocks;
  for (size_t i = 0; i < bytes.size(); ++i) {
    freeFirst(blocks, kAhead - 1);
    blocks.push_back(request(bytes[forward ? i : bytes.size() - 1 - i], stream));
  }
  return blocks;
}

/// When a backward pass frees something, the functions of the forward one have returned.
void Replay::release(int block, AllocationEvent::Action action) {
  variables.push_back(block);
  freeFirst(variables, action == AllocationEvent::Action::Release ? held : 0);
}

void Replay::carryOut(const std::vector<AllocationEvent> &events, const Call &made,
                      Blocks &blocks) {
  for (const AllocationEvent &event : events) {
    int &block = blocks[event.buffer];
    if (event.action == AllocationEvent::Action::Allocate) {
      block = request(rank.stages[made.chunk].bytes[event.buffer]);
      continue;
    }
    bool stays = event.action == AllocationEvent::Action::Gradient &&
                 (rank.gradients == GradientLife::Microbatch ||
                  (rank.gradients == GradientLife::Step && keeps[made.chunk] == made.microbatch));
    if (block != kNone && stays) {
      gradients[made.chunk].push_back(block);
      sizes.push_back(rank.stages[made.chunk].bytes[event.buffer]);
    } else if (block != kNone) {
      release(block, event.action);
    }
    block = kNone;
  }
}

void Replay::call(const Call &made) {
  const StageAllocations &stage = rank.stages[made.chunk];
  std::vector<Blocks> &slots = owned[made.chunk];
  if (made.slot >= static_cast<int>(slots.size()))
    slots.resize(made.slot + 1);
  Blocks &blocks = slots[made.slot];
  bool isForward = made.pass == Pass::Forward;
  bool startsBackward = made.pass == Pass::Backward || made.pass == Pass::InputGrad;
  bool endsBackward = made.pass == Pass::Backward || made.pass == Pass::WeightGrad;
  if (isForward)
    blocks.assign(stage.bytes.size(), kNone);
  if (startsBackward && rank.gradients == GradientLife::Microbatch)
    freeAll(gradients[made.chunk]);
  if (startsBackward && keeps[made.chunk] == kNone)
    keeps[made.chunk] = made.microbatch;
  Blocks gathered = passThrough(rank.gathered[made.chunk], isForward, kGatherStream), scattered;
  if (!isForward)
    scattered = passThrough(rank.scattered[made.chunk], false, kScatterStream);
  if (isForward)
    carryOut(stage.forward, made, blocks);
  if (startsBackward)
    carryOut(stage.inputGrad, made, blocks);
  if (endsBackward) {
    carryOut(stage.weightGrad, made, blocks);
    addToSums();
  }
  freeAll(variables);
  freeAll(gathered);
  freeAll(scattered);
}

/// One after the other, by way of a copy.
void Replay::addToSums() {
  if (rank.gradients == GradientLife::Microbatch)
    for (int64_t bytes : sizes)
      if (int block = request(std::llround(rank.sumShare * double(bytes))); block != kNone)
        memory.free(block);
  sizes.clear();
}

/// With zeros, before the first step, this is all of an update: DeepSpeed's
/// `initialize_optimizer_states`.
void Replay::updateStates() {
  Blocks temporaries = requestAll(rank.update);
  if (!std::exchange(hasStates, true))
    requestAll(rank.states);
  freeAll(temporaries);
}

void Replay::update() {
  Blocks temporaries = requestAll(rank.norm);
  freeAll(temporaries);
  for (int64_t bytes : rank.casts) {
    temporaries = {request(bytes)};
    freeAll(temporaries);
  }
  updateStates();
  for (size_t chunk = 0; chunk < gradients.size(); ++chunk) {
    if (rank.gradients == GradientLife::Step)
      freeAll(gradients[chunk]);
    keeps[chunk] = kNone;
  }
  temporaries = requestAll(rank.after);
  freeAll(temporaries);
}

std::optional<int64_t> Replay::run(const std::vector<Call> &calls) {
  owned.resize(rank.stages.size());
  gradients.resize(rank.stages.size());
  keeps.assign(rank.stages.size(), kNone);
  Blocks initial = requestAll(rank.initial);
  requestAll(rank.resident);
  freeAll(initial);
  if (rank.updatesFirst)
    updateStates();
  for (int step = 0; step < 2; ++step) {
    for (const Call &made : calls) {
      if (failed)
        return std::nullopt;
      call(made);
    }
    update();
  }
  return failed ? std::nullopt : std::optional(memory.peakReserved());
}

std::optional<int64_t> peakReserved(const RankRequests &rank, const std::vector<Call> &calls,
                                    int64_t capacity) {
  std::optional<int64_t> most = Replay(rank, capacity, 0).run(calls);
  for (size_t held = 1; most && held <= rank.held; ++held)
    most = std::max(most, Replay(rank, capacity, held).run(calls));
  return most;
}

std::vector<std::vector<Call>> shortened(const schedule::Schedule &whole) {
  std::vector<std::vector<Call>> result;
  std::map<int64_t, std::optional<schedule::Schedule>> shorter; ///< by microbatches
  const bool trains = schedule::trains(whole);
  for (size_t rank = 0; rank < whole.calls.size(); ++rank) {
    schedule::ScheduleShape shape = whole.shape;
    const std::vector<int32_t> &slots = whole.slots[rank];
    int64_t most = slots.empty() ? 1 : *std::max_element(slots.begin(), slots.end());
    int64_t least = (most + 2 + shape.ranks - 1) / shape.ranks * shape.ranks + leftOver(shape);
    if (describe(shape.kind).keepsAll || least >= shape.microbatches) {
      result.push_back(whole.calls[rank]);
      continue;
    }
    shape.microbatches = least;
    auto [it, isNew] = shorter.try_emplace(least);
    if (isNew)
      it->second = schedule::makeSchedule(shape, trains);
    result.push_back(it->second ? it->second->calls[rank] : whole.calls[rank]);
  }
  return result;
}

} // namespace dtc::plan
