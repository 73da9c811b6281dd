// Chooses the algorithms of products by timing them on the GPU, for `dtc-run --autotune`.
//
// Each product asks cuBLASLt's heuristic for its best few. When all ranks have prepared their
// operations, one rank times those of a product that nobody knows, and tells the others:
//
//   rank   knows from its file      times          all then take
//   0      p: place 2               q: place 0     p: 2, q: 0, r: 1
//   1      p: place 1               r: place 1     p: 2, q: 0, r: 1
//
// So ranks that compute the same get the same bits. The timing has memory and a stream of its own.
#pragma once

#include "AlgorithmCache.h"
#include "CudaOperations.h"

namespace dtc::rt::cuda {

/// What the heuristic offers for a product, its own first choice first. Operations share it.
struct ProductChoice {
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  size_t chosen = 0;
};

/// Whose place of a product all take.
struct AgreedPlace {
  int rank = 0;
  int place = -1; ///< negative: the rank has to time the product
};

/// The lowest rank that knows a product's place counts, else the lowest that has the product.
/// Places are negative where a rank doesn't know them.
std::map<std::string, AgreedPlace> agreePlaces(const std::vector<AlgorithmCache::Places> &ofRanks);

class ProductTuner {
public:
  /// How many of the heuristic's algorithms are timed.
  static constexpr int kMostAlgorithms = 8;

  ProductTuner(Gpu &gpu, RankProgress &progress, Products &products, AlgorithmCache &cache)
      : gpu(gpu), progress(progress), products(products), cache(cache) {}

  /// Null where the product is new; `add` is then called.
  std::shared_ptr<ProductChoice> find(const std::string &product) const;
  void add(const std::string &product, const MatmulSpec &spec,
           std::shared_ptr<ProductChoice> choice);

  /// Places of this rank's products as its file has them, by the GPU's type and product.
  AlgorithmCache::Places known() const;
  /// Times what this rank has to; called by all ranks, with what each knows.
  Status choose(Communicator &communicator, const std::vector<AlgorithmCache::Places> &ofRanks);

private:
  struct Product {
    MatmulSpec spec;
    std::shared_ptr<ProductChoice> choice;
  };
  AlgorithmScope scope() const;
  /// Places by what all ranks call the products.
  Result<AlgorithmCache::Places> time(const std::vector<std::string> &asked);
  /// The fastest one's place; none where the GPU lacks memory for the product's operands.
  Result<std::optional<int>> fastest(CudaQueue &queue, Product &product);

  Gpu &gpu;
  RankProgress &progress;
  Products &products;
  AlgorithmCache &cache;
  std::map<std::string, Product> byName;
};

/// What each of a product's addresses needs, in their order.
std::vector<uint64_t> bytesOfAddresses(const MatmulSpec &spec);

} // namespace dtc::rt::cuda
