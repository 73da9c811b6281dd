// Checks of what the outside sees of a program: tensors by name, scalars, results.
#include "ProgramChecker.h"

#include "dtc-rt/Program/DropoutKeys.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace dtc::rt {
namespace {

const TensorInfo *find(const std::vector<TensorInfo> &list, const std::string &name) {
  for (const TensorInfo &info : list)
    if (info.name == name)
      return &info;
  return nullptr;
}

std::string textOf(const flatbuffers::String *text) { return text ? text->str() : std::string(); }

} // namespace

std::string ProgramChecker::checkBindings() {
  countBindingUses();
  std::set<std::tuple<fbs::BindingKind, std::string, std::string>> known;
  for (uint32_t i = 0; i < program.bindings()->size(); ++i) {
    const fbs::Binding &binding = *program.bindings()->Get(i);
    std::string name = textOf(binding.name());
    if (binding.kind() > fbs::BindingKind::MAX || binding.dtype() > fbs::DType::MAX)
      return name + ": unknown kind or element type of a binding";
    if (!known.emplace(binding.kind(), name, textOf(binding.state())).second)
      return "binds twice: " + name;
    numbers = &bindingUses[i];
    if (Text wrong = checkBinding(binding); !wrong.empty())
      return (name.empty() ? fbs::EnumNameBindingKind(binding.kind()) : name) + ": " + wrong;
  }
  return {};
}

/// A binding is used with the numbers of the functions that take or give it. Data of
/// microbatches comes from outside, for all of them.
void ProgramChecker::countBindingUses() {
  Numbers none{};
  none[static_cast<size_t>(fbs::Scope::Microbatch)] = program.num_microbatches() - 1;
  bindingUses.assign(program.bindings()->size(), none);
  for (uint32_t i = 0; i < program.functions()->size(); ++i) {
    const fbs::Function &function = *program.functions()->Get(i);
    for (const auto *list : {function.arguments(), function.results()})
      for (const fbs::BoundValue *bound : *list)
        for (size_t scope = 0; scope < none.size(); ++scope) {
          uint64_t &most = bindingUses[bound->binding()][scope];
          most = std::max(most, called[i][scope]);
        }
  }
}

std::string ProgramChecker::checkBinding(const fbs::Binding &binding) const {
  if (Text wrong = checkPlacement(binding); !wrong.empty())
    return wrong;
  Dims shape = dimsOf(binding.shape());
  using fbs::BindingKind;
  switch (binding.kind()) {
  case BindingKind::Parameter:
  case BindingKind::Buffer:
  case BindingKind::Master:
  case BindingKind::State:
    return checkWeight(binding, shape);
  case BindingKind::Input:
  case BindingKind::Target:
  case BindingKind::Output:
    return checkData(binding, shape);
  case BindingKind::LearningRate:
  case BindingKind::StepNumber:
  case BindingKind::Evaluation:
  case BindingKind::Count:
  case BindingKind::Loss:
  case BindingKind::GradNorm:
  case BindingKind::NonFinite:
    return checkScalar(binding);
  default: // nothing outside the program touches it
    return {};
  }
}

std::string ProgramChecker::checkPlacement(const fbs::Binding &binding) const {
  const fbs::Placement &given = *binding.placement();
  std::set<int32_t> used;
  auto isFresh = [&](const Vector<int32_t> *axes) {
    for (uint32_t i = 0; axes && i < axes->size(); ++i)
      if (axes->Get(i) < 0 || axes->Get(i) >= static_cast<int32_t>(mesh.getAxes().size()) ||
          !used.insert(axes->Get(i)).second)
        return false;
    return true;
  };
  bool fresh = isFresh(given.flat_axes()) && isFresh(given.partial_axes());
  for (const fbs::AxisList *list : *given.dims())
    fresh = fresh && isFresh(list->axes());
  if (!fresh)
    return "its placement has an unknown or repeated mesh axis";
  Dims shape = dimsOf(binding.shape()), local = dimsOf(binding.local_shape());
  Placement placement = placementOf(binding);
  int64_t size = sizeOf(dtypeOf(binding.dtype()));
  if (!(CheckedSize::product(shape) * size) || placement.dims.size() != shape.size())
    return "impossible shape: " + shapeText(shape);
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] % mesh.sizeOf(placement.dims[dim]) != 0)
      return "its placement does not divide the shape: " + shapeText(shape);
  constexpr uint64_t kMostElements = uint64_t(1) << 62;
  uint64_t offset = given.bucket_offset(), bucket = given.bucket_elements();
  int64_t elements = product(mesh.shard(shape, placement.dims, 0).shape);
  if (!placement.flatAxes.empty() &&
      (bucket > kMostElements || offset > bucket ||
       static_cast<uint64_t>(elements) > bucket - offset ||
       bucket % static_cast<uint64_t>(mesh.sizeOf(placement.flatAxes)) != 0))
    return "impossible place in a bucket: " + std::to_string(offset) + " of " +
           std::to_string(bucket);
  Part part = mesh.part(shape, placement, 0);
  if (local != (placement.flatAxes.empty() ? part.shard.shape : Dims{part.stored}))
    return "is not the part of " + shapeText(shape) +
           " that its placement says: " + shapeText(local);
  CheckedSize bytes = CheckedSize::product(local) * size;
  if (!bytes)
    return "impossible shape: " + shapeText(local);
  return checkRef(binding.ref(), static_cast<uint64_t>(*bytes), static_cast<uint64_t>(size));
}

/// Optimizer states have the parameter's shape; others are scalars.
std::string ProgramChecker::checkWeight(const fbs::Binding &binding, const Dims &shape) const {
  const ParameterInfo *info = manifest.findParameter(binding.name()->str());
  if (!info)
    return "binds an unknown parameter";
  DType dtype = dtypeOf(binding.dtype());
  bool state = binding.kind() == fbs::BindingKind::State;
  bool master = binding.kind() == fbs::BindingKind::Master;
  if (shape != info->view && !(state && shape.empty()))
    return "is not of the parameter's shape " + shapeText(info->view) + ": " + shapeText(shape);
  if ((master && !isConvertible(info->dtype, dtype)) ||
      (!master && !state && dtype != info->storage))
    return "is not stored as the manifest says";
  return binding.ref()->scope() == fbs::Scope::Step ? Text() : "is not there for all of a step";
}

std::string ProgramChecker::checkData(const fbs::Binding &binding, const Dims &shape) const {
  bool output = binding.kind() == fbs::BindingKind::Output;
  const TensorInfo *info = find(output ? manifest.outputs : manifest.inputs, binding.name()->str());
  if (!info || !isConvertible(info->dtype, dtypeOf(binding.dtype())))
    return "binds an unknown input or output, or as a wrong type";
  if (info->name == kDropoutKeys && (binding.dtype() != fbs::DType::I64 || shape.size() != 1))
    return "does not hold keys, one i64 a sample";
  if (shape != info->shape)
    return "is not of the manifest's shape " + shapeText(info->shape) + ": " + shapeText(shape);
  if (binding.placement()->flat_axes() && binding.placement()->flat_axes()->size() > 0)
    return "samples cannot lie in a bucket";
  // A step's samples are those of its microbatches, no more and no fewer.
  int64_t perStep = program.num_microbatches();
  int64_t samples = info->isWhole() ? 1 : manifest.computedSamples() / perStep;
  if (shape.empty() || shape[0] != samples)
    return "its first dimension is not the batch of a microbatch: " + shapeText(shape);
  if (binding.ref()->scope() > fbs::Scope::Microbatch)
    return "is neither of a step nor of a microbatch";
  return {};
}

std::string ProgramChecker::checkScalar(const fbs::Binding &binding) const {
  using fbs::BindingKind;
  bool result = binding.kind() == BindingKind::Loss || binding.kind() == BindingKind::GradNorm ||
                binding.kind() == BindingKind::NonFinite || binding.kind() == BindingKind::Count;
  bool isFloat =
      binding.dtype() == fbs::DType::F32 || (!result && binding.dtype() == fbs::DType::F64);
  if (!isFloat || binding.shape()->size() != 0)
    return "is not a single float";
  return binding.ref()->scope() == fbs::Scope::Step ? Text() : "is not there for all of a step";
}

} // namespace dtc::rt
