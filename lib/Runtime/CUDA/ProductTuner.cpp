#include "ProductTuner.h"

#include "GatherTexts.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

namespace dtc::rt::cuda {
namespace {

using Places = AlgorithmCache::Places;
using nlohmann::json;

/// Another one than the heuristic's first must be faster by so much: times vary.
constexpr double kLeastGain = 0.02;
constexpr int kRounds = 3, kMostCalls = 50;
constexpr double kRoundMilliseconds = 1;

uint64_t bytesOf(const StridedTensor &tensor) {
  int64_t last = 0;
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    if (tensor.shape[dim] == 0)
      return 0;
    last += (tensor.shape[dim] - 1) * tensor.strides[dim];
  }
  return static_cast<uint64_t>((last + 1) * sizeOf(static_cast<DType>(tensor.dtype)));
}

/// Two events of a stream, and the time between them.
class Stopwatch {
public:
  explicit Stopwatch(CudaQueue &queue) : queue(queue), driver(queue.driver) {}
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;
  ~Stopwatch() {
    for (CUevent event : events)
      if (event)
        driver.cuEventDestroy_v2(event);
  }

  Status begin() {
    for (CUevent &event : events)
      DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventCreate, &event, CU_EVENT_DEFAULT));
    return Status::ok();
  }

  /// Milliseconds of a call, of so many in a row.
  Result<double> time(Operation &operation, std::span<const Address> addresses, int calls) {
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventRecord, events[0], queue.stream));
    for (int i = 0; i < calls; ++i)
      DTC_CUDA_TRY(operation.issue(addresses));
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventRecord, events[1], queue.stream));
    DTC_CUDA_TRY(queue.synchronize());
    float milliseconds = 0;
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventElapsedTime, &milliseconds, events[0], events[1]));
    return static_cast<double>(milliseconds) / calls;
  }

  /// The best of some rounds, behind one that warms up.
  Result<double> best(Operation &operation, std::span<const Address> addresses) {
    Result<double> once = time(operation, addresses, 1);
    if (once)
      once = time(operation, addresses, 1);
    if (!once)
      return once;
    const int calls = static_cast<int>(
        std::clamp(kRoundMilliseconds / std::max(*once, 1e-3), 1.0, double(kMostCalls)));
    double least = *once;
    for (int i = 0; i < kRounds; ++i) {
      Result<double> took = time(operation, addresses, calls);
      if (!took)
        return took;
      least = std::min(least, *took);
    }
    return least;
  }

private:
  CudaQueue &queue;
  const Driver &driver;
  CUevent events[2] = {};
};

} // namespace

std::vector<uint64_t> bytesOfAddresses(const MatmulSpec &spec) {
  const MatmulCall &call = spec.call;
  std::vector<uint64_t> bytes = {bytesOf(call.a), bytesOf(call.b), bytesOf(call.c)};
  if (hasVector(call.epilogue)) // no longer than the result has rows or columns
    bytes.push_back(bytes[2]);
  if (call.hasMatrix)
    bytes.push_back(bytes[2]);
  if (call.hasAddend)
    bytes.push_back(bytes[2]);
  if (spec.scratchBytes)
    bytes.push_back(spec.scratchBytes);
  return bytes;
}

std::map<std::string, AgreedPlace> agreePlaces(const std::vector<Places> &ofRanks) {
  std::map<std::string, AgreedPlace> agreed;
  for (size_t rank = 0; rank < ofRanks.size(); ++rank)
    for (const auto &[product, place] : ofRanks[rank]) {
      const AgreedPlace own{static_cast<int>(rank), place};
      auto [entry, isNew] = agreed.try_emplace(product, own);
      if (entry->second.place < 0 && place >= 0)
        entry->second = own;
    }
  return agreed;
}

std::shared_ptr<ProductChoice> ProductTuner::find(const std::string &product) const {
  auto found = byName.find(product);
  return found == byName.end() ? nullptr : found->second.choice;
}

void ProductTuner::add(const std::string &product, const MatmulSpec &spec,
                       std::shared_ptr<ProductChoice> choice) {
  byName[product] = {spec, std::move(choice)};
}

AlgorithmScope ProductTuner::scope() const {
  return {gpu.type(), byName.empty() ? 0 : products.calls().cublasLtGetVersion()};
}

static std::string textOf(const AlgorithmScope &scope) {
  return scope.gpu + ", cuBLASLt " + std::to_string(scope.version) + ": ";
}

Places ProductTuner::known() const {
  Places kept = cache.read(scope()), result;
  const std::string prefix = textOf(scope());
  for (const auto &[name, product] : byName) {
    auto found = kept.find(name);
    const bool isOffered = found != kept.end() && found->second >= 0 &&
                           static_cast<size_t>(found->second) < product.choice->algorithms.size();
    result[prefix + name] = isOffered ? found->second : -1;
  }
  return result;
}

Status ProductTuner::choose(Communicator &communicator, const std::vector<Places> &ofRanks) {
  std::map<std::string, AgreedPlace> agreed = agreePlaces(ofRanks);
  std::vector<std::string> mine;
  bool isTimed = false;
  for (const auto &[product, entry] : agreed) {
    isTimed |= entry.place < 0;
    if (entry.place < 0 && entry.rank == communicator.rank())
      mine.push_back(product);
  }
  if (isTimed) {
    Result<Places> timed = time(mine);
    if (!timed)
      return timed.status();
    std::vector<int> everyone(static_cast<size_t>(communicator.worldSize()));
    std::iota(everyone.begin(), everyone.end(), 0);
    auto texts = gatherTexts(communicator, everyone, json(*timed).dump());
    if (!texts)
      return texts.status();
    for (const std::string &text : *texts)
      for (const auto &[product, place] : json::parse(text).get<Places>())
        agreed[product].place = place;
  }
  const std::string prefix = textOf(scope());
  Places found;
  for (auto &[name, product] : byName)
    if (int place = agreed[prefix + name].place; place >= 0) {
      if (static_cast<size_t>(place) >= product.choice->algorithms.size())
        return failed("cuBLASLt offers other algorithms to the ranks of a product: " + name);
      product.choice->chosen = static_cast<size_t>(place);
      found[name] = place;
    }
  cache.add(scope(), found);
  return Status::ok();
}

Result<Places> ProductTuner::time(const std::vector<std::string> &asked) {
  Places result;
  if (asked.empty())
    return result;
  auto queue = CudaQueue::create(gpu, progress, {"autotuning"});
  if (!queue)
    return queue.status();
  const std::string prefix = textOf(scope());
  size_t unfit = 0, changed = 0;
  for (const std::string &name : asked) {
    Result<std::optional<int>> place = fastest(**queue, byName.at(name.substr(prefix.size())));
    if (!place)
      return place.status();
    if (*place)
      result[name] = **place;
    unfit += !*place;
    changed += *place && **place > 0;
  }
  std::string note = "timed cuBLASLt's algorithms for " + std::to_string(asked.size()) +
                     " products; another than its first choice is faster for " +
                     std::to_string(changed);
  if (unfit > 0)
    note += "; too large to be timed beside the arena: " + std::to_string(unfit);
  std::fprintf(stderr, "dtc-run: note: %s\n", note.c_str());
  return result;
}

Result<std::optional<int>> ProductTuner::fastest(CudaQueue &queue, Product &product) {
  constexpr uint64_t kAlignment = 256;
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0;
  for (uint64_t size : bytesOfAddresses(product.spec)) {
    offsets.push_back(bytes);
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  auto memory = gpu.allocateDevice(bytes);
  if (!memory && memory.status().category() == ErrorCategory::NoFit)
    return std::optional<int>();
  if (!memory)
    return memory.status();
  std::vector<Address> addresses;
  for (uint64_t offset : offsets)
    addresses.push_back((*memory)->base() + offset);
  MadeOperation operation = makeMatmul(queue, product.spec, products, this);
  if (!operation)
    return operation.status();
  Stopwatch watch(queue);
  DTC_CUDA_TRY(watch.begin());
  ProductChoice &choice = *product.choice;
  double first = 0, least = 0;
  size_t best = 0;
  for (choice.chosen = 0; choice.chosen < choice.algorithms.size(); ++choice.chosen) {
    Result<double> took = watch.best(**operation, addresses);
    if (!took)
      return took.status();
    if (choice.chosen == 0)
      first = *took;
    else if (*took >= std::min(least, first * (1 - kLeastGain)))
      continue;
    least = *took;
    best = choice.chosen;
  }
  choice.chosen = best;
  return std::optional<int>(static_cast<int>(best));
}

} // namespace dtc::rt::cuda
