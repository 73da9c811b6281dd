#include "dtc-rt/Placement.h"

#include <algorithm>

namespace dtc::rt {
namespace {

/// Indices of the elements of a box are rows of `row` elements; calls run(first index
/// in the whole, index in the box, count) for those in [begin, begin + count) of the box.
void forEachStretch(const Dims &whole, const Dims &offset, const Dims &part, int64_t begin,
                    int64_t count, const PlacedTensor::Run &run) {
  Dims shape = part;
  Box inWhole{whole, offset}, inPart{part, Dims(part.size(), 0)};
  forEachRun(shape, inWhole, inPart, [&](int64_t atWhole, int64_t atPart, int64_t length) {
    int64_t first = std::max(atPart, begin), last = std::min(atPart + length, begin + count);
    if (first < last)
      run(atWhole + first - atPart, first, last - first);
  });
}

} // namespace

std::string PlacedTensor::findMistake(const Dims &shape, const Placement &placement,
                                      const RankMesh &mesh) {
  if (placement.dims.size() != shape.size())
    return "a placement of " + std::to_string(placement.dims.size()) + " dimensions of " +
           shapeText(shape);
  std::vector<bool> used(mesh.getAxes().size(), false);
  std::vector<AxisList> lists = placement.dims;
  lists.push_back(placement.flatAxes);
  for (const AxisList &list : lists)
    for (int32_t axis : list) {
      if (axis < 0 || axis >= static_cast<int32_t>(used.size()) || used[axis])
        return "unknown or repeated mesh axis: " + std::to_string(axis);
      used[axis] = true;
    }
  int64_t local = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t ranks = mesh.sizeOf(placement.dims[dim]);
    if (shape[dim] % ranks != 0)
      return "the mesh does not divide dimension " + std::to_string(dim) + " of " +
             shapeText(shape);
    local *= shape[dim] / ranks;
  }
  if (placement.flatAxes.empty())
    return placement.bucketOffset == 0 && placement.bucketElements == 0
               ? ""
               : "a bucket that no axis divides";
  if (placement.bucketElements < 0 ||
      placement.bucketElements % mesh.sizeOf(placement.flatAxes) != 0)
    return "a bucket that its axes do not divide: " + std::to_string(placement.bucketElements);
  if (placement.bucketOffset < 0 || placement.bucketElements < local ||
      placement.bucketOffset > placement.bucketElements - local)
    return "a tensor that reaches out of its bucket of " +
           std::to_string(placement.bucketElements) + " elements: " + shapeText(shape);
  return {};
}

PlacedTensor::PlacedTensor(Dims whole, Placement where, const RankMesh &mesh)
    : shape(std::move(whole)), placement(std::move(where)), mesh(&mesh) {
  for (size_t dim = 0; dim < shape.size(); ++dim)
    localShape.push_back(shape[dim] / mesh.sizeOf(placement.dims[dim]));
}

Dims PlacedTensor::storedShape() const {
  if (placement.flatAxes.empty())
    return localShape;
  return {placement.bucketElements / mesh->sizeOf(placement.flatAxes)};
}

PlacedTensor::Part PlacedTensor::partOf(int64_t rank) const {
  int64_t elements = product(localShape);
  if (placement.flatAxes.empty())
    return {0, elements, 0};
  int64_t size = placement.bucketElements / mesh->sizeOf(placement.flatAxes);
  int64_t begin = size * mesh->position(rank, placement.flatAxes);
  int64_t first = std::max(begin, placement.bucketOffset);
  int64_t last = std::min(begin + size, placement.bucketOffset + elements);
  return {first - placement.bucketOffset, std::max<int64_t>(last - first, 0), first - begin};
}

PlacedTensor::Range PlacedTensor::storedRange(int64_t rank) const {
  Part part = partOf(rank);
  return part.count > 0 ? Range{part.stored, part.count} : Range{};
}

void PlacedTensor::forEachRun(int64_t rank, const Run &run) const {
  Part part = partOf(rank);
  if (part.count == 0)
    return;
  Dims offset;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    offset.push_back(localShape[dim] * mesh->position(rank, placement.dims[dim]));
  forEachStretch(shape, offset, localShape, part.firstLocal, part.count,
                 [&](int64_t whole, int64_t local, int64_t count) {
                   run(whole, local - part.firstLocal + part.stored, count);
                 });
}

bool PlacedTensor::isFirstHolder(int64_t rank) const {
  AxisList splitting = placement.flatAxes;
  for (const AxisList &list : placement.dims)
    splitting.insert(splitting.end(), list.begin(), list.end());
  // Copies lie along the axes that split nothing; the first has coordinate 0 on all of them.
  for (int32_t axis = 0; axis < static_cast<int32_t>(mesh->getAxes().size()); ++axis)
    if (std::find(splitting.begin(), splitting.end(), axis) == splitting.end() &&
        mesh->position(rank, {axis}) != 0)
      return false;
  return true;
}

} // namespace dtc::rt
