// Steps of one rank: what lies in its memory, and what each access finds there.
#pragma once

#include "Memory.h"
#include "Traffic.h"

namespace dtc::replay {

/// Bindings that outlive a step.
inline bool persists(fbs::BindingKind kind) {
  return kind == fbs::BindingKind::Parameter || kind == fbs::BindingKind::Buffer ||
         kind == fbs::BindingKind::Master || kind == fbs::BindingKind::State;
}

class RankReplay {
public:
  /// `program` is that of the class's role.
  RankReplay(const RankClasses &classes, size_t classNumber, const ProgramFacts &program);

  /// Empty, or the first violation in one of the steps. Fills in the traffic.
  std::string run(Traffic &traffic, const std::vector<uint32_t> &steps);

private:
  /// Contents come in blocks: one for each call, one for what the host writes in a step.
  struct Block {
    Content first;
    uint32_t step, call; ///< kHost: by binding and microbatch
  };
  static constexpr uint32_t kHost = ~0u;
  /// The expected content of an argument that is all microbatches of its binding.
  static constexpr Content kPieces = ~Content(0);

  struct TokenEvent {
    Clock clock;
    uint32_t event = ~0u; ///< in the traffic; none: never signalled
  };

  bool evaluates() const { return site.step == kEvaluation; }
  std::string startStep();
  std::string makeCall();
  std::string finishStep();

  Content newBlock(size_t size, uint32_t call);
  std::string bindArguments(const FunctionFacts &facts);
  std::string accumulate(const FunctionFacts &facts);
  std::string checkResults(const FunctionFacts &facts);
  std::string checkWhole(const FunctionFacts &facts);
  std::string execute(const InstructionAccesses &entry);
  std::string touch(const InstructionAccesses &entry, Time now, const Clock &clock);
  std::string readPieces(const Access &access, Time now, const Clock &clock);
  std::string meet(const InstructionAccesses &entry, Time now, const Clock &clock);
  uint32_t newEvent();
  std::string sendOrReceive(const fbs::MessageT &message, const Channel &channel);
  std::string keepsOrder(std::map<uint64_t, Time> &last, uint64_t key, Time now,
                         const Clock &clock);

  uint64_t homeOf(uint32_t binding, uint32_t instance) const;
  std::string fail(const std::string &what) const;
  std::string failRead(const Access &access, Content expected, const Fault &fault) const;
  std::string failResult(const Bound &result, Content expected, const Fault &fault) const;
  std::string failWrite(const std::string &what, const Fault &fault) const;
  /// What lies somewhere, for people.
  std::string describe(Content content) const;
  std::string describeBlock(const Block &block, uint64_t index) const;
  std::string describeValue(const fbs::FunctionT &function, uint32_t value) const;

  const RankClasses &classes;
  size_t classNumber;
  const ProgramFacts &role;
  const fbs::ProgramT &program;
  Traffic *traffic = nullptr;

  Memory memory;
  std::vector<std::vector<Content>> current; ///< by binding and instance
  std::vector<uint64_t> givenBytes;          ///< by binding: of the value that was given last
  std::vector<std::vector<uint32_t>> added;  ///< by function and binding: microbatches so far
  std::vector<Clock> clocks;                 ///< by queue
  std::vector<std::vector<TokenEvent>> tokens;
  std::map<uint64_t, Time> lastOnChannel, lastInGroup;

  Site site;
  const fbs::Call *call = nullptr;
  std::vector<Content> expected; ///< by value of the function that is called
  std::vector<Block> blocks;
  Content nextContent = 1;
  Content callFirst = 0; ///< of the block of the call
};

} // namespace dtc::replay
