#include "SameParts.h"

#include "Accesses.h"

#include <map>
#include <optional>

namespace dtc::replay {
namespace {

/// A stretch of a value, in bytes. Tensors of other element types have the same one elsewhere.
struct Share {
  uint64_t begin = 0, bytes = 0, whole = 0;

  bool isPart() const { return bytes < whole; }
  bool operator==(const Share &other) const {
    using Wide = unsigned __int128;
    return Wide(begin) * other.whole == Wide(other.begin) * whole &&
           Wide(bytes) * other.whole == Wide(other.bytes) * whole;
  }
};

class PartsFollower {
public:
  explicit PartsFollower(const fbs::FunctionT &function) : function(function) {}

  std::string run() {
    for (const auto &instruction : function.instructions) {
      bool isRight = true;
      if (const auto *copy = instruction->op.AsCopy())
        isRight = follow(*copy, instruction->reads[0], instruction->writes[0]);
      else if (instruction->op.AsLaunch())
        isRight = follow(*instruction);
      if (!isRight)
        return describe(function, *instruction) + ": has other parts of its tensors than of one";
    }
    return {};
  }

private:
  Share shareIn(const fbs::Ref &ref, uint64_t bytes, uint32_t value) const {
    const fbs::Value &whole = function.values[value];
    return {ref.offset() - whole.ref().offset(), bytes, whole.bytes()};
  }

  /// A part of a part isn't followed: no program has it.
  bool follow(const fbs::CopyT &copy, uint32_t from, uint32_t to) {
    const Share read = shareIn(*copy.source, copy.bytes, from);
    const Share written = shareIn(*copy.target, copy.bytes, to);
    auto known = shares.find(from);
    const std::optional<Share> share = read.isPart()           ? std::optional(read)
                                       : known != shares.end() ? std::optional(known->second)
                                                               : std::nullopt;
    if (written.isPart())
      return share && *share == written;
    if (share)
      shares[to] = *share;
    return true;
  }

  bool follow(const fbs::InstructionT &launch) {
    std::optional<Share> share;
    for (uint32_t value : launch.reads) {
      auto known = shares.find(value);
      if (known == shares.end())
        continue;
      if (share && !(*share == known->second))
        return false;
      share = known->second;
    }
    if (share)
      for (uint32_t value : launch.writes)
        shares[value] = *share;
    return true;
  }

  const fbs::FunctionT &function;
  std::map<uint32_t, Share> shares; ///< of values that are parts of others, or made of such
};

} // namespace

std::string checkSameParts(const fbs::FunctionT &function) { return PartsFollower(function).run(); }

} // namespace dtc::replay
