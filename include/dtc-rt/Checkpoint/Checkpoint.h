// A checkpoint: what a run needs to go on as if it had never stopped.
//
//   DIR/step-120/checkpoint.json       where everything is, and the files' hashes
//                rank-0.safetensors    what rank 0 wrote
//                rank-1.safetensors
//
// A tensor is stored under its name in the model file, an optimizer state beside its weight's name.
// Every element of it is in exactly one file: where several ranks hold the same elements, each
// writes its share. A 4x6 weight on <dp=2, tp=2> whose rows are split by tp:
//
//   rank 0 (dp 0, tp 0)   rows 0-1, elements [0, 6)     rank 2 (dp 1, tp 0)   elements [6, 12)
//   rank 1 (dp 0, tp 1)   rows 2-3, elements [0, 6)     rank 3 (dp 1, tp 1)   elements [6, 12)
//
// Whoever loads it takes the elements that its own placement gives it, from whichever files have
// them. So a checkpoint knows neither plans nor ranks. checkpoint.json is
//
//   {"sha256": of the text of "content",
//    "content": {"format": 1, "step": 120, "position": 960, "samples": 64, "shuffle": true, "seed":
//    0, "traits": {"heads": "4 of 16"},
//                "files": [{"name": "rank-0.safetensors", "size", "sha256"}],
//                "tensors": [{"name", "state": "" | "exp_avg", "dtype", "shape", "view",
//                             "filled", where it isn't what filledOf says,
//                             "parts": [{"file": index, "at": bytes from the start of the file,
//                                        "offset", "shape",          the box, in the view
//                                        "begin", "end"}]}]}}        elements of the box
#pragma once

#include "dtc-rt/Program/DType.h"
#include "dtc-rt/Program/RankMesh.h"
#include "dtc-rt/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace dtc::rt {

inline constexpr const char *kCheckpointManifest = "checkpoint.json";

/// How far a run has come.
struct TrainingPoint {
  int64_t step = 0;     ///< the last one that is done
  int64_t position = 0; ///< samples taken, of all epochs
  int64_t samples = 0;  ///< of the data
  bool shuffle = true;
  uint64_t seed = 0;
};

struct StoredFile {
  std::string name;
  uint64_t size = 0;
  std::string sha256;
};

/// Elements [begin, end) of a box of the tensor; they lie from byte `at` of the file on.
struct StoredPart {
  size_t file = 0;
  uint64_t at = 0;
  Part part;
};

struct StoredTensor {
  std::string name, state; ///< no state: the weight itself
  DType dtype = DType::F32;
  Dims shape, view, filled; ///< as ParameterInfo; empty for a state that is one number
  std::vector<StoredPart> parts;

  /// "exp_avg of fc1.weight".
  std::string text() const { return state.empty() ? name : state + " of " + name; }
};

struct CheckpointInfo {
  TrainingPoint point;
  std::map<std::string, std::string> traits; ///< the artifact's (Manifest.h)
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors; ///< by name and state, ascending

  /// The index of a tensor that is there.
  size_t find(const std::string &name, const std::string &state) const;
};

std::string checkpointText(const CheckpointInfo &info);
/// Afterwards every part lies inside of its tensor and its file.
Result<CheckpointInfo> parseCheckpoint(std::string_view text);

} // namespace dtc::rt
