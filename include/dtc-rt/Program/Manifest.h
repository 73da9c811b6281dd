// manifest.json of an artifact (PackageFormat.h), parsed and checked.
//
// After `parse` everything is consistent: dtypes known, counts positive, every
// rank in one role.
#pragma once

#include "dtc-rt/Program/DType.h"
#include "dtc-rt/Program/Shape.h"
#include "dtc-rt/Status.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc::rt {

/// A tensor of the whole program. How the ranks hold it, their programs' bindings say.
struct TensorInfo {
  std::string name;
  DType dtype = DType::F32; ///< as in the model file
  Dims shape;
  std::optional<int64_t> limit; ///< integer inputs: values are below this
  /// Programs have samples first; files of arrays have them here. None: a program has a first
  /// dimension of 1, and arrays are taken whole.
  std::optional<int64_t> batchDim = 0;

  bool isWhole() const { return !batchDim; }
  /// The shape that an array of so many samples has in a file.
  Dims fileShape(int64_t samples) const;
};

/// Normal distribution that a parameter without data is drawn from.
struct Distribution {
  double mean = 0, deviation = 0;
};

/// A parameter that was made for training: a factor of scale * B A, which is added to a weight.
struct AdapterInfo {
  std::string base;
  bool isUp = false; ///< B, [..., out, rank]; else A, [..., rank, in]
  double scale = 1;
  /// The weight is [..., in, out] and not [..., out, in]; none: nothing can be merged into it.
  std::optional<bool> isTransposed;
};

struct ParameterInfo : TensorInfo {
  std::vector<std::string> aliases; ///< further names of a tied weight
  /// Row-major reshape of `shape` that is divided. Or that is longer along some dimensions: no file
  /// has what is added, which is 0 at first.
  Dims view;
  Dims filled; ///< the reshape itself: what of `view`, from its first element on, files have
  bool isLonger() const { return view != filled; }
  bool trainable = true;
  std::optional<AdapterInfo> adapter;
  DType storage = DType::F32; ///< of the copy that the functions read
  std::optional<Distribution> init;
};

/// A file that holds weights, as the compiler found it.
struct WeightFile {
  std::string path; ///< relative to the artifact's folder, or absolute
  uint64_t size = 0;
  std::string headSha256; ///< of its first kHeadBytes bytes
};

/// Where the bytes of one parameter are.
struct WeightLocation {
  std::optional<size_t> file; ///< index into WeightIndex::files; none: the embedded member
  uint64_t offset = 0, size = 0;
  DType dtype = DType::F32;
};

struct WeightIndex {
  std::vector<WeightFile> files;
  std::map<std::string, WeightLocation> tensors; ///< by parameter
};

struct LearningRateInfo {
  enum class Schedule { Constant, Linear, Cosine } schedule = Schedule::Constant;
  double lr = 0, minLr = 0;
  int64_t warmupSteps = 0, totalSteps = 0;
};

struct MemberInfo {
  uint64_t size = 0;
  std::string sha256;
};

/// Ranks that run the same program; by their position on its mesh.
struct RoleInfo {
  std::string program; ///< member
  std::vector<int> ranks;
};

/// The input that a loss compares with the outputs.
constexpr const char *kTarget = "target";

/// What the program makes of its outputs; None: nothing, it is run forward.
enum class LossKind { None, CrossEntropy, MeanSquaredError, Output };

struct Manifest {
  std::string target;
  int64_t worldSize = 1, threadsPerRank = 1;
  std::string arch;
  std::vector<std::string> processorFeatures;
  std::vector<RoleInfo> roles;   ///< every rank is in one
  std::vector<std::string> code; ///< members with the kernels, may be none
  int64_t globalBatch = 1;       ///< samples that a step reads
  int64_t paddedSamples = 0;     ///< behind them, so that all ranks have equally many
  std::optional<int64_t> sequence, vocabulary;
  LossKind loss = LossKind::None;
  int64_t ignoreIndex = -100;
  /// What tells models apart whose tensors are alike, by name: "heads" are "4 of 16".
  std::map<std::string, std::string> traits;
  std::vector<ParameterInfo> parameters;
  std::map<std::string, size_t> parameterIndex; ///< by name
  std::vector<TensorInfo> inputs, outputs;
  WeightIndex weights;
  std::string data; ///< samples of a run that is given none, as a weight file's path; or empty
  LearningRateInfo learningRate;
  std::optional<double> predictedStepTime;
  std::map<std::string, MemberInfo> members;

  bool isForGpu() const { return target == "cuda"; }
  /// Of all microbatches.
  int64_t computedSamples() const { return globalBatch + paddedSamples; }
  static Result<Manifest> parse(std::span<const char> json);
  const ParameterInfo *findParameter(const std::string &name) const;
  /// The role of a rank (an index), and the rank's position in it.
  std::pair<size_t, size_t> roleOf(int rank) const;
};

} // namespace dtc::rt
