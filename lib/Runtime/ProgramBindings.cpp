// Checks of what the outside sees of a program: bindings, scalars, results.
#include "ProgramChecker.h"

namespace dtc::rt {
namespace {

const TensorInfo *find(const std::vector<TensorInfo> &list, const std::string &name) {
  for (const TensorInfo &info : list)
    if (info.name == name)
      return &info;
  return nullptr;
}

} // namespace

std::string ProgramChecker::checkShard(const fbs::Binding &binding, const Dims &shape,
                                       const Sharding &sharding) const {
  if (static_cast<int>(binding.dtype()) > static_cast<int>(fbs::DType::MAX))
    return "unknown element type";
  Dims local = dimsOf(binding.local_shape());
  if (local != manifest.mesh.shard(shape, sharding, 0).shape)
    return "is not a shard of " + shapeText(shape) + ": " + shapeText(local);
  DType dtype = dtypeOf(binding.dtype());
  std::optional<int64_t> bytes = checkedProduct(local, sizeOf(dtype));
  if (!bytes)
    return "impossible shape: " + shapeText(local);
  return checkRef(binding.ref(), static_cast<uint64_t>(*bytes),
                  static_cast<uint64_t>(sizeOf(dtype)));
}

std::string ProgramChecker::checkBindings() {
  for (const auto *list : {program.parameters(), program.states()}) {
    for (const fbs::Binding *binding : *list) {
      std::string name = binding->name()->str();
      const ParameterInfo *info = manifest.findParameter(name);
      if (!info)
        return "binds an unknown parameter: " + name;
      if (list == program.parameters() && dtypeOf(binding->dtype()) != info->storage)
        return name + ": is not stored as the manifest says";
      // Optimizer states have the parameter's shape and sharding; others are scalars.
      bool scalar = list == program.states() && binding->local_shape()->size() == 0;
      Text wrong = scalar ? checkShard(*binding, {}, {})
                          : checkShard(*binding, info->view, info->sharding);
      if (!wrong.empty())
        return name + ": " + wrong;
    }
  }
  for (const auto &[list, infos] : {std::pair(program.inputs(), &manifest.inputs),
                                    std::pair(program.outputs(), &manifest.outputs)}) {
    for (const fbs::Binding *binding : *list) {
      std::string name = binding->name()->str();
      const TensorInfo *info = find(*infos, name);
      if (!info || !isConvertible(info->dtype, dtypeOf(binding->dtype())))
        return "binds an unknown input or output, or as a wrong type: " + name;
      if (Text wrong = checkShard(*binding, info->shape, info->sharding); !wrong.empty())
        return name + ": " + wrong;
      // A step's samples are those of its microbatches, no more and no fewer.
      int64_t perStep = program.num_microbatches();
      if (info->shape.empty() || manifest.globalBatch % perStep != 0 ||
          info->shape[0] != manifest.globalBatch / perStep)
        return name + ": its first dimension is not the batch of a microbatch: " +
               shapeText(info->shape);
      if (binding->ref()->per() == fbs::Per::Slot)
        return name + ": cannot lie in a slot";
    }
  }
  if (program.outputs()->size() != manifest.outputs.size())
    return "does not compute every output, but: " + std::to_string(program.outputs()->size());
  for (const fbs::Scalar *scalar : *program.scalars()) {
    bool single = scalar->dtype() == fbs::DType::F32;
    if (!single && scalar->dtype() != fbs::DType::F64)
      return "a scalar that is not a float";
    if (Text wrong = checkRef(scalar->target(), single ? 4 : 8, single ? 4 : 8); !wrong.empty())
      return "scalar: " + wrong;
  }
  for (const fbs::Ref *ref : {program.loss(), program.grad_norm()})
    if (ref)
      if (Text wrong = checkRef(ref, 4, 4); !wrong.empty())
        return "loss or gradient norm: " + wrong;
  return {};
}

} // namespace dtc::rt
