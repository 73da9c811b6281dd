#include "StoredParts.h"

#include "Accesses.h"

#include <algorithm>
#include <map>
#include <set>

namespace dtc::replay {
namespace {

using fbs::BindingKind;
using RankLists = std::set<std::vector<int32_t>>;

bool isFlat(const fbs::BindingT &binding) {
  return binding.placement && !binding.placement->flat_axes.empty();
}

class StoredParts {
public:
  explicit StoredParts(const Role &role) : program(*role.program), ranks(role.ranks) {}

  std::string run() {
    for (const auto &binding : program.bindings)
      if (std::string wrong = checkPlacement(*binding); !wrong.empty())
        return describe(*binding) + " " + wrong;
    for (const auto &function : program.functions)
      for (const auto &instruction : function->instructions)
        if (const auto *op = instruction->op.AsCollective())
          if (std::string wrong = checkCollective(*function, *instruction, *op); !wrong.empty())
            return "@" + function->name + ": " + replay::describe(*function, *instruction) + ": " +
                   wrong;
    return {};
  }

private:
  static std::string describe(const fbs::BindingT &binding) {
    std::string text =
        std::string(fbs::EnumNameBindingKind(binding.kind)) + " '" + binding.name + "'";
    return binding.state.empty() ? text : text + " (" + binding.state + ")";
  }

  std::string checkPlacement(const fbs::BindingT &binding) {
    if (!isFlat(binding))
      return {};
    const fbs::PlacementT &placement = *binding.placement;
    uint64_t sharers = 1;
    for (int32_t axis : placement.flat_axes) {
      if (axis < 0 || axis >= int32_t(program.mesh_axes.size()))
        return "is divided over an axis that the mesh lacks: " + std::to_string(axis);
      sharers *= uint64_t(program.mesh_axes[axis]->size);
    }
    if (binding.local_shape.size() != 1 ||
        uint64_t(binding.local_shape[0]) * sharers != placement.bucket_elements)
      return "isn't its rank's part of a bucket of " + std::to_string(placement.bucket_elements) +
             " elements";
    auto [known, isFirst] = stored.try_emplace(binding.name, &binding);
    const fbs::PlacementT &other = *known->second->placement;
    if (placement.flat_axes != other.flat_axes || placement.bucket_offset != other.bucket_offset ||
        placement.bucket_elements != other.bucket_elements)
      return "lies elsewhere in a bucket than " + describe(*known->second);
    return {};
  }

  /// What an argument or result is bound to, if there is such a thing.
  const fbs::BindingT *boundTo(const std::vector<fbs::BoundValue> &list, uint32_t value) const {
    auto found = std::ranges::find_if(
        list, [&](const fbs::BoundValue &bound) { return bound.value() == value; });
    return found == list.end() ? nullptr : program.bindings[found->binding()].get();
  }

  std::string checkCollective(const fbs::FunctionT &function, const fbs::InstructionT &instruction,
                              const fbs::CollectiveT &op) const {
    bool gathers = op.kind == fbs::CollectiveKind::AllGather;
    if ((!gathers && op.kind != fbs::CollectiveKind::ReduceScatter) ||
        op.group >= program.groups.size())
      return {};
    const auto &values = gathers ? instruction.reads : instruction.writes;
    for (uint32_t value : values) {
      const fbs::BindingT *part = boundTo(gathers ? function.arguments : function.results, value);
      if (part && isFlat(*part) && !isAmong(op.group, part->placement->flat_axes))
        return std::string(gathers ? "gathers " : "scatters ") + describe(*part) +
               " among other ranks than those that share it";
    }
    return {};
  }

  /// Whether the group's lists are the ranks along these axes.
  bool isAmong(uint32_t group, const std::vector<int32_t> &axes) const {
    RankLists given, wanted;
    for (const auto &list : program.groups[group]->lists)
      given.insert(list->ranks);
    std::map<uint64_t, std::vector<int32_t>> along; // by the position off the axes
    std::vector<std::pair<std::pair<uint64_t, uint64_t>, int32_t>> places;
    for (size_t position = 0; position < ranks.size(); ++position)
      places.push_back({positions(position, axes), ranks[position]});
    std::ranges::sort(places);
    for (const auto &[place, rank] : places)
      along[place.first].push_back(rank);
    for (const auto &[other, list] : along)
      wanted.insert(list);
    return given == wanted;
  }

  /// A rank's place off the axes and along them.
  std::pair<uint64_t, uint64_t> positions(size_t position, const std::vector<int32_t> &axes) const {
    std::vector<uint64_t> at(program.mesh_axes.size());
    for (size_t axis = at.size(); axis-- > 0;) {
      auto size = uint64_t(program.mesh_axes[axis]->size);
      at[axis] = position % size;
      position /= size;
    }
    uint64_t off = 0, along = 0;
    for (size_t axis = 0; axis < at.size(); ++axis)
      if (std::ranges::find(axes, int32_t(axis)) == axes.end())
        off = off * uint64_t(program.mesh_axes[axis]->size) + at[axis];
    for (int32_t axis : axes)
      along = along * uint64_t(program.mesh_axes[axis]->size) + at[axis];
    return {off, along};
  }

  const fbs::ProgramT &program;
  const std::vector<int32_t> &ranks;
  std::map<std::string, const fbs::BindingT *> stored; ///< the first of each parameter
};

} // namespace

std::string checkStoredParts(const Role &role) { return StoredParts(role).run(); }

} // namespace dtc::replay
