#include "dtc-rt/Program/ProgramView.h"
#include "ProgramChecker.h"

#include <algorithm>

namespace dtc::rt {

Dims dimsOf(const flatbuffers::Vector<int64_t> *values) {
  return values ? Dims(values->begin(), values->end()) : Dims();
}

namespace {

AxisList axesOf(const flatbuffers::Vector<int32_t> *axes) {
  return axes ? AxisList(axes->begin(), axes->end()) : AxisList();
}

} // namespace

Placement placementOf(const fbs::Binding &binding) {
  const fbs::Placement &from = *binding.placement();
  Placement placement;
  for (const fbs::AxisList *list : *from.dims())
    placement.dims.push_back(axesOf(list->axes()));
  placement.flatAxes = axesOf(from.flat_axes());
  placement.bucketOffset = static_cast<int64_t>(from.bucket_offset());
  placement.bucketElements = static_cast<int64_t>(from.bucket_elements());
  return placement;
}

std::vector<const fbs::Binding *>
ProgramView::bindings(std::initializer_list<fbs::BindingKind> kinds) const {
  std::vector<const fbs::Binding *> found;
  for (const fbs::Binding *binding : *program->bindings())
    if (std::find(kinds.begin(), kinds.end(), binding->kind()) != kinds.end())
      found.push_back(binding);
  return found;
}

const fbs::Binding *ProgramView::binding(fbs::BindingKind kind) const {
  for (const fbs::Binding *binding : *program->bindings())
    if (binding->kind() == kind)
      return binding;
  return nullptr;
}

RankMesh meshOf(const fbs::Program &program) {
  std::vector<RankMesh::Axis> axes;
  for (const fbs::MeshAxis *axis : *program.mesh_axes())
    axes.push_back({axis->name()->str(), axis->size()});
  return RankMesh(std::move(axes));
}

Result<ProgramView> ProgramView::open(std::span<const char> bytes, const Manifest &manifest,
                                      size_t role) {
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/64, /*max_tables=*/100'000'000);
  if (bytes.size() < 8 || !fbs::ProgramBufferHasIdentifier(data) ||
      !fbs::VerifyProgramBuffer(verifier))
    return refused("is not a well-formed program");
  ProgramView view;
  view.program = fbs::GetProgram(data);
  ProgramChecker checker(*view.program, manifest, manifest.roles.at(role));
  if (std::string wrong = checker.run(); !wrong.empty())
    return refused(std::move(wrong));
  return view;
}

} // namespace dtc::rt
