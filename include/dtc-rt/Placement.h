// Where the elements of a tensor lie: which of them a rank has, and in which order.
//
// First the axes of the mesh divide the dimensions, as a Sharding says; that gives a
// rank's local tensor. Flat axes then divide the local elements, flattened row-major,
// whatever the dimensions are. They lie in a bucket, perhaps beside other tensors
// and padding, which is cut into equal parts. A rank stores one part:
//
//   4x6 on <tp=2, dp=4>, dims [[], [tp]], flat axes [dp], bucket of 16 elements, at 2:
//
//   tp=0 has 4x3 = 12 local elements, e0 ... e11
//   bucket    -  -  e0 e1 | e2 e3 e4 e5 | e6 e7 e8 e9 | e10 e11 -  -
//             dp=0          dp=1          dp=2          dp=3
//
// The storage of dp=1 is 4 elements, whose first is e2; that of dp=0 is 4 elements as
// well, the first two of which aren't of this tensor.
#pragma once

#include "dtc-rt/RankMesh.h"

#include <functional>
#include <string>

namespace dtc::rt {

struct Placement {
  Sharding dims;     ///< axes of each dimension, major to minor
  AxisList flatAxes; ///< empty: the local tensor is stored as it is
  int64_t bucketOffset = 0, bucketElements = 0;
};

/// A tensor of a shape, placed on a mesh.
class PlacedTensor {
public:
  /// What is wrong with a placement; an empty string where nothing is.
  static std::string findMistake(const Dims &shape, const Placement &placement,
                                 const RankMesh &mesh);

  /// The placement must be without mistake.
  PlacedTensor(Dims shape, Placement placement, const RankMesh &mesh);

  /// What every rank stores: a part of the bucket, or the local tensor.
  Dims storedShape() const;

  /// Calls run(index in the tensor, index in what the rank stores, count) for
  /// stretches of elements that follow each other in both, in the order of storage.
  using Run = std::function<void(int64_t whole, int64_t stored, int64_t count)>;
  void forEachRun(int64_t rank, const Run &run) const;

  /// The stored elements that are the tensor's: they follow each other.
  struct Range {
    int64_t begin = 0, count = 0;
  };
  Range storedRange(int64_t rank) const;

  /// True when no rank of lower number stores the same elements.
  bool isFirstHolder(int64_t rank) const;

private:
  /// The local elements that the rank stores, and the place of the first.
  struct Part {
    int64_t firstLocal = 0, count = 0, stored = 0;
  };
  Part partOf(int64_t rank) const;

  Dims shape, localShape;
  Placement placement;
  const RankMesh *mesh;
};

} // namespace dtc::rt
