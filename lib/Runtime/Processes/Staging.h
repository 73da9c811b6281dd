// What collectives of processes send and receive, as contiguous runs of bytes.
//
// Along the first dimension (or where all before it have one element) the part of a rank is
// contiguous. It goes directly from memory to memory. Along another it is packed first:
//
//   4x6 divided along dimension 1 among two ranks
//   a a a b b b
//   a a a b b b    part of rank 0: a a a a a a a a a a a a
//   ...
#pragma once

#include "dtc-rt/Communicator.h"

namespace dtc::rt {

struct Run {
  char *data = nullptr;
  int64_t bytes = 0;
};

int64_t totalBytes(std::span<const Run> runs);
/// Bytes [begin, end) of the runs, taken one after another.
std::vector<Run> slice(std::span<const Run> runs, int64_t begin, int64_t end);
std::vector<SendBlock> asSent(std::span<const Run> runs);

/// One buffer of an all-gather. Blocks point into the object, which may move but not be copied.
class GatheredBuffer {
public:
  GatheredBuffer(const Transfer &buffer, int64_t elementBytes, int dim, const RankGroup &group);
  GatheredBuffer(GatheredBuffer &&) = default;

  /// What this rank sends to each other one.
  SendBlock own() const;
  /// Where the part of a position arrives.
  ReceiveBlock placeOf(int position);
  /// Puts the parts where they belong.
  void finish();

private:
  Transfer buffer;
  int64_t elementBytes;
  int dim, size, position;
  uint64_t partBytes;
  bool isContiguous;
  std::vector<char> packed; ///< the parts one after another, where they aren't contiguous
};

/// One buffer of a reduce-scatter.
class ScatteredBuffer {
public:
  ScatteredBuffer(const Transfer &buffer, int64_t elementBytes, int dim, const RankGroup &group);
  ScatteredBuffer(ScatteredBuffer &&) = default;

  /// The part of the source that is for a position.
  Run part(int position);
  /// Where this rank's result goes: nowhere that is still to be sent.
  Run result();
  void finish();

private:
  Transfer buffer;
  int position;
  int64_t partBytes;
  bool isContiguous;
  std::vector<char> packed;
};

} // namespace dtc::rt
