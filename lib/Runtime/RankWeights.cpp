// Weights and states on their way into a rank's memory, and weights out of it.
#include "Session.h"

namespace dtc::rt {

using fbs::BindingKind;

static size_t indexOf(const Manifest &manifest, const fbs::Binding &binding) {
  return static_cast<size_t>(manifest.findParameter(binding.name()->str()) -
                             manifest.parameters.data());
}

/// States of the optimizer begin as zeros, which the arena is.
Status RankWorker::loadWeights() {
  for (const fbs::Binding *binding :
       program.bindings({BindingKind::Parameter, BindingKind::Buffer, BindingKind::Master}))
    if (Status status = load(*binding); !status.isOk())
      return status;
  if (session.checkpoints && session.checkpoints->resumed)
    for (const fbs::Binding *binding : program.bindings({BindingKind::State}))
      if (Status status = load(*binding); !status.isOk())
        return status;
  return Status::ok();
}

/// Tensors of a bucket lie one after another, with padding between them: each writes what is
/// its own.
Status RankWorker::load(const fbs::Binding &binding) {
  Part part = partOf(binding);
  DType dtype = dtypeOf(binding.dtype());
  Address target = at(binding) + part.at * sizeOf(dtype);
  part.at = 0;
  uint64_t bytes = static_cast<uint64_t>((part.end - part.begin) * sizeOf(dtype));
  Status read = Status::ok();
  Status written = device->write(target, bytes, [&](char *host) {
    if (session.checkpoints && session.checkpoints->resumed)
      read = session.checkpoints->read(binding, part, host);
    else
      session.weights.read(indexOf(session.manifest(), binding), part, dtype, host);
  });
  return read.isOk() ? written : read;
}

/// Masters after parameters: they have the full precision.
Status RankWorker::saveWeights() {
  const Manifest &manifest = session.manifest();
  for (size_t role = 0; role < session.programs.size(); ++role) {
    std::vector<const fbs::Binding *> best(manifest.parameters.size(), nullptr);
    for (auto kinds :
         {std::initializer_list<BindingKind>{BindingKind::Parameter, BindingKind::Buffer},
          {BindingKind::Master}})
      for (const fbs::Binding *binding : session.programs[role].bindings(kinds))
        best[indexOf(manifest, *binding)] = binding;
    for (size_t i = 0; i < best.size(); ++i) {
      if (!best[i] || session.speakers.parameters[i] != static_cast<int>(role))
        continue;
      Status status = collect(role, *best[i], 0, [&](const Part &part, const char *host) {
        session.weightWriter->put(i, part, dtypeOf(best[i]->dtype()), host);
      });
      if (!status.isOk())
        return status;
    }
  }
  return communicator.barrier(world);
}

} // namespace dtc::rt
