// The artifact model.dtc, as compiler and runtime both know it.
//
// One uncompressed zip whose members start at multiples of 64 bytes:
//
//   manifest.json          see below
//   program/ROLE.bin       FlatBuffers, Program.fbs; one per role
//   code/NAME              the kernels: kernels.so; for GPUs kernels.ptx and sm_XY/KERNEL.cubin
//   weights.safetensors    weights that were inside the model file
//
// manifest.json: {
//   "format": 5, "dtc": "0.1.0", "target": "cpu", "world_size": 4,
//   "processor": {"arch": "x86-64", "features": ["avx2", ...]},   what the code needs
//   "threads_per_rank": 1,
//   "roles": [{"program": "program/0.bin", "ranks": [0, 1, 2, 3]}], every rank in one, in the
//                                                                order of the program's mesh
//   "code": ["code/kernels.so"],                                 members
//   "global_batch": 8, "sequence": 32 | null,                    tokens per sample, where known
//   "padded_samples": 1,                                         behind these; may be absent
//   "vocabulary": 512 | null,                                    bound of integer inputs, if known
//   "traits": {"heads": "4 of 16"},     of the model; checkpoints of others are refused by them
//   "loss": "cross_entropy", "ignore_index": -100,
//   "data": "train.bin",                                         samples; may be absent
//   "parameters": [{"name", "aliases": [], "dtype", "shape", "view", "trainable": bool,
//                   "adapter": {"base", "part", "scale", "layout"} | null,      made by --lora
//                   "storage_dtype", "init": {"mean", "sd"} | null}],   of the arena copy; normal
//   "inputs": [{"name", "dtype", "shape", "limit": N | null}],   of one global microbatch
//   "outputs": [{"name", "dtype", "shape"}],                     how ranks hold them all: bindings
//   "weights": {"files": [{"path", "size", "head_sha256"}],      path from the artifact's folder
//               "tensors": {NAME: {"file": index | null,         null: in weights.safetensors
//                                  "offset", "size",             bytes, from the start of either
//                                  "dtype", "shape",             as in the file
//                                  "sha256": "..." | null}}},    null for referenced files
//   "learning_rate": {"lr", "schedule", "warmup_steps", "total_steps", "min_lr"},
//   "optimizer": {...}, "plan": {...}, "collectives": {...}, "predicted": {"step_time_s", ...},
//   "library_calls": {"matmul": N, ...}, "epilogues": {"BiasGelu": N, ...},   of products
//   "arena_bytes": [N per role],
//   "members": {"program/0.bin": {"size": N, "sha256": "..."}, ...}
// }
//
// The zip comment is the manifest's SHA-256 in hex. Members are hashed before
// use; head_sha256 is that of a file's first min(size, kHeadBytes) bytes.
// dtypes are written as in safetensors: "F32", "BF16", "I64", "BOOL"...
#pragma once

#include <cstdint>

namespace dtc::rt {

inline constexpr int kFormatVersion = 9;
inline constexpr uint64_t kMemberAlignment = 64;
inline constexpr uint64_t kHeadBytes = 65536;
inline constexpr int64_t kMostThreads = 4096; ///< a rank
/// A file is written as FILE.partial-PID, and renamed when it is complete.
inline constexpr const char *kPartialSuffix = ".partial-";
inline constexpr const char *kCodeFolder = "code/";
inline constexpr const char *kManifestMember = "manifest.json";
inline constexpr const char *kWeightsMember = "weights.safetensors";

/// The entry point of a generated CPU kernel. `args` are the operands' and
/// then the results' buffers; does iterations [begin, end); `scratch` is this
/// thread's own.
using KernelFunction = void (*)(char *const *args, int64_t begin, int64_t end, char *scratch);

} // namespace dtc::rt
