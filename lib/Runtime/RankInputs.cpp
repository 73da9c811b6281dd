// What a rank's step is given: its samples, the keys of its dropouts, and numbers such as the
// learning rate.
#include "Session.h"

#include "dtc-rt/Files/Philox.h"
#include "dtc-rt/LearningRate.h"
#include "dtc-rt/Program/DropoutKeys.h"

#include <cstring>

namespace dtc::rt {

using fbs::BindingKind;

static size_t indexOf(const std::vector<TensorInfo> &list, const std::string &name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name)
      return i;
  return list.size(); // not reached: ProgramView knows all bindings
}

Status RankWorker::issue(int64_t number) {
  if (Status status = pipeline->begin(number); !status.isOk())
    return status;
  Samples samples{session.data, session.order, session.pointAfter(number - 1).position};
  if (Status status = writeInputs(number, samples); !status.isOk())
    return status;
  return pipeline->issue(number);
}

Status RankWorker::writeInputs(int64_t number, const Samples &samples) {
  const StepWatch::Pause reading(watch);
  for (size_t i = 0; i < stepInputs.size(); ++i) {
    const fbs::Binding &binding = *stepInputs[i].binding;
    Status status = isData(binding) ? writeBatch(number, i, samples)
                                    : writeScalar(number, i, binding, samples.isEvaluated);
    if (!status.isOk())
      return status;
  }
  return Status::ok();
}

/// Has the samples of a shard from one on no target.
static void ignoreTargets(const Shard &shard, int64_t from, int64_t ignored, DType dtype,
                          char *host) {
  const int64_t count = product(shard.shape);
  const int64_t each = shard.shape[0] > 0 ? count / shard.shape[0] : 0;
  for (int64_t i = std::max<int64_t>(from, 0) * each; i < count; ++i)
    convert(dtype, host + i * sizeOf(dtype), DType::I64, reinterpret_cast<const char *>(&ignored),
            1);
}

/// Behind the batch there may be padding: its first sample again, whose targets are ignored.
Status RankWorker::writeBatch(int64_t number, size_t index, const Samples &batch) {
  const fbs::Binding &binding = *stepInputs[index].binding;
  size_t column = indexOf(session.manifest().inputs, binding.name()->str());
  const TensorInfo &info = session.manifest().inputs[column];
  const int64_t first = stepInputs[index].microbatch * info.shape[0];
  if (info.name == kDropoutKeys)
    return writeKeys(number, index, binding, batch.position + first, batch.isEvaluated);
  const int64_t own = session.manifest().globalBatch - first; // of this microbatch, or fewer
  std::vector<int64_t> samples(static_cast<size_t>(info.shape[0]));
  for (int64_t i = 0; i < info.shape[0]; ++i)
    samples[i] = batch.order.at(batch.position + (i < own ? first + i : 0));
  const Shard shard = partOf(binding).shard;
  const DType dtype = dtypeOf(binding.dtype());
  Status read = Status::ok();
  Status written = pipeline->write(number, index, [&](char *host) {
    read = batch.data.read(column, samples, shard, dtype, host);
    if (info.name == kTarget && own < info.shape[0])
      ignoreTargets(shard, own - shard.offset[0], session.manifest().ignoreIndex, dtype, host);
  });
  return read.isOk() ? written : read;
}

/// A sample's key follows from its place in the whole training.
static uint64_t keyOf(uint64_t seed, uint64_t sample) {
  auto words = philox(seed, RandomStream::Dropout, 0, sample);
  uint64_t key = words[0] | static_cast<uint64_t>(words[1]) << 32;
  return key == kKeepsAll ? 0 : key;
}

Status RankWorker::writeKeys(int64_t number, size_t index, const fbs::Binding &keys, int64_t first,
                             bool isEvaluated) {
  Shard shard = partOf(keys).shard;
  return pipeline->write(number, index, [&](char *host) {
    for (int64_t i = 0; i < shard.shape[0]; ++i) {
      auto sample = static_cast<uint64_t>(first + shard.offset[0] + i);
      uint64_t key = isEvaluated ? kKeepsAll : keyOf(session.start.seed, sample);
      std::memcpy(host + i * sizeof(key), &key, sizeof(key));
    }
  });
}

static double scalarOf(BindingKind kind, const Manifest &manifest, int64_t number,
                       bool isEvaluated) {
  if (kind == BindingKind::Evaluation)
    return isEvaluated ? 1 : 0;
  return kind == BindingKind::LearningRate ? learningRateAt(manifest.learningRate, number)
                                           : static_cast<double>(number);
}

Status RankWorker::writeScalar(int64_t number, size_t index, const fbs::Binding &scalar,
                               bool isEvaluated) {
  double value = scalarOf(scalar.kind(), session.manifest(), number, isEvaluated);
  return pipeline->write(number, index, [&](char *host) {
    convert(dtypeOf(scalar.dtype()), host, DType::F64, reinterpret_cast<const char *>(&value), 1);
  });
}

} // namespace dtc::rt
