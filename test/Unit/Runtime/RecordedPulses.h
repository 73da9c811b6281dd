// A rank's end that keeps what the rank says of its steps, and else does what another one does.
#pragma once

#include "dtc-rt/Communicator.h"

namespace dtc::rt::test {

class RecordedPulses : public Communicator {
public:
  explicit RecordedPulses(std::unique_ptr<Communicator> other) : other(std::move(other)) {}

  std::vector<int64_t> steps; ///< one after another, 0 for what isn't a step
  std::vector<std::chrono::seconds> patiences;
  void setPulse(const StepPulse &pulse) override {
    steps.push_back(pulse.step);
    patiences.push_back(pulse.patience);
  }

  int rank() const override { return other->rank(); }
  int worldSize() const override { return other->worldSize(); }
  std::chrono::milliseconds timeLimit() const override { return other->timeLimit(); }
  std::unique_ptr<Communicator> forQueue(const std::string &name) override {
    return other->forQueue(name);
  }
  RankGroup group(const std::vector<int> &ranks) override { return other->group(ranks); }
  Status allReduce(const RankGroup &group, Reduction kind, DType dtype,
                   std::span<const Transfer> buffers) override {
    return other->allReduce(group, kind, dtype, buffers);
  }
  Status allGather(const RankGroup &group, DType dtype, std::span<const Transfer> buffers,
                   int dim) override {
    return other->allGather(group, dtype, buffers, dim);
  }
  Status reduceScatter(const RankGroup &group, Reduction kind, DType dtype,
                       std::span<const Transfer> buffers, int dim) override {
    return other->reduceScatter(group, kind, dtype, buffers, dim);
  }
  Status allToAll(const RankGroup &group, DType dtype, const Transfer &buffer, int splitDim,
                  int concatDim) override {
    return other->allToAll(group, dtype, buffer, splitDim, concatDim);
  }
  Status permute(const RankGroup &group, DType dtype, const Transfer &buffer,
                 std::span<const int64_t> sources) override {
    return other->permute(group, dtype, buffer, sources);
  }
  Status broadcast(const RankGroup &group, char *data, uint64_t bytes, int root) override {
    return other->broadcast(group, data, bytes, root);
  }
  Status barrier(const RankGroup &group) override { return other->barrier(group); }
  Status send(int to, uint32_t channel, std::span<const SendBlock> blocks) override {
    return other->send(to, channel, blocks);
  }
  Status receive(int from, uint32_t channel, std::span<const ReceiveBlock> blocks) override {
    return other->receive(from, channel, blocks);
  }
  void abort(const Status &reason) override { other->abort(reason); }
  Status waitedTooLong(const Status &reason, std::optional<int> missing) override {
    return other->waitedTooLong(reason, missing);
  }
  Status deviceTookTooLong(const Status &reason, const std::function<bool()> &isDone) override {
    return other->deviceTookTooLong(reason, isDone);
  }
  Status check() const override { return other->check(); }

private:
  std::unique_ptr<Communicator> other;
};

} // namespace dtc::rt::test
