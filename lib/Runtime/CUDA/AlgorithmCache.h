// Which algorithm of cuBLASLt was the fastest for a product, kept from run to run.
//
// The user's cache has a file for each type of GPU and version of cuBLASLt. By product it has a
// place in the list that cuBLASLt's heuristic gives:
//
//   {"gpu": "NVIDIA H100 80GB HBM3, sm_90, 132 multiprocessors", "cublaslt": 130100,
//    "places": {"BF16 x BF16 -> BF16, 768x768 ...": 2}}
//
// A place is all that is read. So a file that somebody else wrote can only name an algorithm that
// the heuristic offers.
#pragma once

#include "dtc-rt/Status.h"

#include <map>
#include <mutex>
#include <string>

namespace dtc::rt::cuda {

/// What choices are good for.
struct AlgorithmScope {
  std::string gpu;
  uint64_t version = 0; ///< of cuBLASLt
  auto operator<=>(const AlgorithmScope &) const = default;
};

/// Of all ranks of a process.
class AlgorithmCache {
public:
  /// Places by product.
  using Places = std::map<std::string, int>;

  /// Nothing is kept where `folder` is empty.
  explicit AlgorithmCache(std::string folder) : folder(std::move(folder)) {}

  /// What is kept. A file that isn't one of ours is passed over, with a line that says so.
  Places read(const AlgorithmScope &scope);
  /// Keeps what isn't kept yet. What can't be written is made again next time.
  void add(const AlgorithmScope &scope, const Places &found);

  std::string fileOf(const AlgorithmScope &scope) const;

private:
  Places &known(const AlgorithmScope &scope);
  /// `why` says why a file isn't used; it stays empty where there is none, or it is.
  Places load(const AlgorithmScope &scope, std::string &why) const;
  Status save(const AlgorithmScope &scope, const Places &places) const;

  std::string folder;
  std::mutex mutex;
  std::map<AlgorithmScope, Places> loaded;
};

} // namespace dtc::rt::cuda
