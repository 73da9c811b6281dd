// What the operations of a graph of the emulated cuDNN compute.
#pragma once

#include "Emulator/Cudnn/AttentionGraph.h"

namespace dtc::emulator {

class GraphValues {
public:
  using Numbers = std::vector<double>;

  explicit GraphValues(const CudnnCall &call) : call(call) {}

  /// The elements of a tensor in dense order, rounded to its type.
  void put(const CudnnTensor &tensor, Numbers numbers);
  const Numbers &of(const CudnnTensor &tensor);
  void compute(const GraphStep &step);

private:
  Numbers pointwise(const GraphStep &step);
  Numbers product(const GraphStep &step);
  Numbers reduction(const GraphStep &step);
  Numbers reshape(const GraphStep &step);

  const CudnnCall &call;
  std::map<int64_t, Numbers> values; ///< by id
};

} // namespace dtc::emulator
