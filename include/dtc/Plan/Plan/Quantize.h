// Frozen weights that are kept in integers, as QLoRA and servers keep them.
//
// A weight w[o,i] of 4096 x 11008 in int4 takes 4 bits an element. Each 64 of them have a scale of
// 8 bits, and each 256 scales have one of 32 bits: 4.127 bits, 23 MB instead of 90. A product
// unpacks its weight while it runs, so that one copy in its type is there then.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

enum class Quantization : uint8_t {
  None,
  Int8, ///< with an fp32 scale for each row of the result, as LLM.int8()
  Int4  ///< in blocks of 64 whose scales are kept in 8 bits, as QLoRA
};

/// "int4 (4.127 bits a weight with scales of 64 weights)".
const char *describe(Quantization quantization);

/// Keeps the frozen weights that products alone read so, but for the last product: that is the
/// head, which bitsandbytes leaves in its type, too. Norms, biases and tables of embeddings
/// stay. Returns how many elements are kept so.
int64_t quantizeFrozen(Problem &problem, Quantization quantization);

} // namespace dtc::plan
