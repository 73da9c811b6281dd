#include "dtc-rt/Checkpoint/RankFiles.h"

#include "dtc-rt/Files/ArrayFile.h"

#include <map>
#include <utility>

namespace dtc::rt {
namespace {

using fbs::BindingKind;
using Key = std::pair<std::string, std::string>; ///< name and state

/// The role that writes a tensor, and its binding there.
struct Writer {
  size_t role;
  const fbs::Binding *binding;
};

std::map<Key, Writer> findWriters(std::span<const ProgramView> programs) {
  std::map<Key, Writer> writers;
  for (auto kinds : {std::initializer_list<BindingKind>{BindingKind::Master},
                     {BindingKind::Parameter, BindingKind::Buffer},
                     {BindingKind::State}})
    for (size_t role = 0; role < programs.size(); ++role)
      for (const fbs::Binding *binding : programs[role].bindings(kinds))
        writers.try_emplace({binding->name()->str(), stateOf(*binding)}, Writer{role, binding});
  return writers;
}

StoredTensor tensorOf(const Key &key, const fbs::Binding &binding, const Manifest &manifest) {
  StoredTensor tensor{key.first, key.second, dtypeOf(binding.dtype()), {}, dimsOf(binding.shape()),
                      {},        {}};
  if (tensor.view.empty()) // a state that is one number, or a parameter that is
    return tensor;
  const ParameterInfo &info = *manifest.findParameter(key.first);
  tensor.shape = info.shape;
  tensor.filled = info.filled;
  return tensor;
}

/// The parts of one rank while they are collected.
struct Collected {
  std::vector<SafetensorsEntry> entries;
  std::vector<OwnedPart> parts;
  std::vector<size_t> tensors; ///< by part: its tensor
};

void collect(const Writer &writer, size_t tensor, const CheckpointInfo &info,
             const ProgramView &program, const RoleInfo &role, std::vector<Collected> &ranks) {
  const StoredTensor &stored = info.tensors[tensor];
  RankMesh mesh = meshOf(*program);
  Placement placement = placementOf(*writer.binding);
  for (size_t position = 0; position < role.ranks.size(); ++position) {
    Part share = mesh.share(stored.view, placement, static_cast<int64_t>(position));
    int64_t count = share.end - share.begin;
    if (count == 0)
      continue;
    Collected &rank = ranks[role.ranks[position]];
    bool isWhole = count == product(share.shard.shape);
    rank.entries.push_back({stored.state.empty() ? stored.name : stored.name + "/" + stored.state,
                            stored.dtype, isWhole ? share.shard.shape : Dims{count}});
    rank.parts.push_back({writer.binding, share});
    rank.tensors.push_back(tensor);
  }
}

} // namespace

std::string stateOf(const fbs::Binding &binding) {
  bool isState = binding.kind() == BindingKind::State && binding.state();
  return isState ? binding.state()->str() : std::string();
}

Result<CheckpointFiles> CheckpointFiles::of(std::span<const ProgramView> programs,
                                            const Manifest &manifest) {
  CheckpointFiles files;
  files.info.traits = manifest.traits;
  std::vector<Collected> ranks(static_cast<size_t>(manifest.worldSize));
  for (const auto &[key, writer] : findWriters(programs)) {
    files.info.tensors.push_back(tensorOf(key, *writer.binding, manifest));
    collect(writer, files.info.tensors.size() - 1, files.info, programs[writer.role],
            manifest.roles[writer.role], ranks);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Collected &own = ranks[rank];
    Result<SafetensorsHeader> header = SafetensorsHeader::of(own.entries);
    if (!header)
      return header.status();
    for (size_t i = 0; i < own.parts.size(); ++i) {
      own.parts[i].at = header->offsets[i];
      files.info.tensors[own.tensors[i]].parts.push_back(
          {rank, header->offsets[i], own.parts[i].part});
    }
    files.info.files.push_back(
        {"rank-" + std::to_string(rank) + ".safetensors", header->fileSize, {}});
    files.ranks.push_back({std::move(header->bytes), std::move(own.parts)});
  }
  return files;
}

} // namespace dtc::rt
