// The samples that a run reads: one column per model input, `target` among them.
//
//   .safetensors, .npz    an array per input, first dimension samples (but see TensorInfo)
//   .bin                  tokens, uint16 for vocabularies below 65,536, else
//                         uint32; of sequence length s, sample i has the input
//                         tokens[i*s .. i*s+s) and the target one further on
//
// Everything that does not depend on the values is checked when the file is
// opened; integers are checked against their limit when they are read.
#pragma once

#include "dtc-rt/Files/ArrayFile.h"
#include "dtc-rt/Program/Manifest.h"
#include "dtc-rt/Program/RankMesh.h"

namespace dtc::rt {

class DataSet {
public:
  static Result<DataSet> open(const std::string &path, const Manifest &manifest);
  /// Exactly a global batch, which the caller keeps alive.
  static Result<DataSet> ofBatch(const std::map<std::string, Array> &arrays,
                                 const Manifest &manifest);

  int64_t numSamples() const { return samples; }

  /// Copies a rank's part of some samples into `target`, row-major, as `dtype`:
  /// `input` is an index into Manifest::inputs, `shard` the part of that input
  /// (its first dimension numbers the elements of `samples`).
  Status read(size_t input, std::span<const int64_t> samples, const Shard &shard, DType dtype,
              char *target) const;

  /// Whether `read` refuses none of some samples.
  Status check(std::span<const int64_t> samples) const;

private:
  struct Column {
    std::string name;
    DType dtype = DType::F32;
    const char *data = nullptr;
    int64_t sampleBytes = 0; ///< from one sample to the next
    Dims sampleShape;
    std::optional<int64_t> limit, ignored;
    std::shared_ptr<std::vector<char>> owner; ///< of data that was rearranged
  };

  Status addArrays(const ArrayFile &file, const Manifest &manifest);
  Status addTokens(const MappedFile &file, const Manifest &manifest);
  Status checkLimit(const Column &column, int64_t sample, const char *values, int64_t count) const;

  std::string path;
  std::vector<Column> columns;
  int64_t samples = 0;
  std::shared_ptr<const void> owner;
};

} // namespace dtc::rt
