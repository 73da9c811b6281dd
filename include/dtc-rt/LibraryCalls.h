// Which oneDNN primitives the Matmul and Conv records of a program stand for.
//
// Compiler and runtime make the primitives through the same code: the compiler
// to plan their scratch memory, the runtime to execute them. Memory is handed
// in by the caller ("user" scratchpad), so a call allocates nothing. oneDNN
// takes the number of threads from the calling thread (omp_set_num_threads);
// set it to Program.threads before any function of this header.
//
// Errors are dnnl::error: the library has no primitive for the operands.
#pragma once

#include "dtc-rt/Program_generated.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace dtc::rt {

using Dims = std::vector<int64_t>;

/// A strided tensor; strides in elements.
struct TensorLayout {
  fbs::DType dtype = fbs::DType::F32;
  Dims shape, strides;
};

/// c (+)= a * b over the last two dimensions; see Matmul in Program.fbs.
struct MatmulCall {
  TensorLayout a, b, c;
  bool accumulate = false;
};

/// See Conv in Program.fbs.
struct ConvCall {
  fbs::ConvKind kind = fbs::ConvKind::Forward;
  TensorLayout input, weight, output;
  Dims strides, padLow, padHigh, dilations;
  int64_t groups = 1;
};

namespace library {

inline dnnl::memory::data_type typeOf(fbs::DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
  case fbs::DType::F32:
    return Type::f32;
  case fbs::DType::BF16:
    return Type::bf16;
  case fbs::DType::F16:
    return Type::f16;
  default:
    throw dnnl::error(dnnl_unimplemented, "no library product of this element type");
  }
}

inline dnnl::memory::desc describe(const TensorLayout &tensor) {
  return {tensor.shape, typeOf(tensor.dtype), tensor.strides};
}

inline dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline uint64_t alignScratch(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace library

/// The primitive of a Matmul.
inline dnnl::matmul::primitive_desc describe(const MatmulCall &call, const dnnl::engine &engine) {
  dnnl::primitive_attr attr = library::userScratchpad();
  if (call.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum();
    attr.set_post_ops(ops);
  }
  dnnl::matmul::desc desc(library::describe(call.a), library::describe(call.b),
                          library::describe(call.c));
  return {desc, attr, engine};
}

inline uint64_t scratchBytes(const dnnl::matmul::primitive_desc &primitive) {
  return library::alignScratch(primitive.scratchpad_desc().get_size());
}

/// The primitive of a Conv. Weights are brought into the layout that the
/// primitive likes best, in scratch: [weights | scratchpad | reorder's scratchpad].
struct ConvPrimitive {
  dnnl::primitive_desc primitive;
  dnnl::memory::desc input, output;
  dnnl::memory::desc plainWeight, weight; ///< as the caller has it, as the primitive takes it
  std::optional<dnnl::reorder::primitive_desc> reorder; ///< between the two where they differ

  uint64_t weightBytes() const { return reorder ? library::alignScratch(weight.get_size()) : 0; }
  uint64_t ownBytes() const {
    return library::alignScratch(primitive.scratchpad_desc().get_size());
  }
  uint64_t reorderBytes() const {
    return reorder ? library::alignScratch(reorder->scratchpad_desc().get_size()) : 0;
  }
  uint64_t scratchBytes() const { return weightBytes() + ownBytes() + reorderBytes(); }
};

namespace library {

inline dnnl::memory::desc describeWeight(const ConvCall &call) {
  TensorLayout weight = call.weight;
  if (call.groups > 1) {
    // [o, c/groups, kernel...] -> [groups, o/groups, c/groups, kernel...]
    int64_t perGroup = weight.shape.at(0) / call.groups;
    weight.shape.at(0) = perGroup;
    weight.shape.insert(weight.shape.begin(), call.groups);
    weight.strides.insert(weight.strides.begin(), weight.strides.at(0) * perGroup);
  }
  return describe(weight);
}

inline dnnl::convolution_forward::primitive_desc
describeForward(const ConvCall &call, const ConvPrimitive &parts,
                const dnnl::memory::desc &anyWeight, const dnnl::engine &engine) {
  Dims dilations = call.dilations; // oneDNN counts the gaps
  for (int64_t &dilation : dilations)
    --dilation;
  dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, parts.input,
      anyWeight, parts.output, call.strides, dilations, call.padLow, call.padHigh);
  return {desc, userScratchpad(), engine};
}

} // namespace library

inline ConvPrimitive describe(const ConvCall &call, const dnnl::engine &engine) {
  using namespace dnnl;
  ConvPrimitive parts;
  parts.input = library::describe(call.input);
  parts.output = library::describe(call.output);
  parts.plainWeight = library::describeWeight(call);
  memory::desc anyWeight(parts.plainWeight.dims(), parts.plainWeight.data_type(),
                         memory::format_tag::any);
  Dims dilations = call.dilations;
  for (int64_t &dilation : dilations)
    --dilation;
  auto forward = library::describeForward(call, parts, anyWeight, engine);
  bool weightGrad = call.kind == fbs::ConvKind::WeightGrad;
  if (call.kind == fbs::ConvKind::Forward) {
    parts.weight = forward.weights_desc();
    parts.primitive = forward;
  } else if (weightGrad) {
    convolution_backward_weights::desc desc(algorithm::convolution_direct, parts.input, anyWeight,
                                            parts.output, call.strides, dilations, call.padLow,
                                            call.padHigh);
    convolution_backward_weights::primitive_desc primitive(desc, library::userScratchpad(), engine,
                                                           forward);
    parts.weight = primitive.diff_weights_desc();
    parts.primitive = primitive;
  } else {
    convolution_backward_data::desc desc(algorithm::convolution_direct, parts.input, anyWeight,
                                         parts.output, call.strides, dilations, call.padLow,
                                         call.padHigh);
    convolution_backward_data::primitive_desc primitive(desc, library::userScratchpad(), engine,
                                                        forward);
    parts.weight = primitive.weights_desc();
    parts.primitive = primitive;
  }
  if (parts.weight != parts.plainWeight) {
    const memory::desc &from = weightGrad ? parts.weight : parts.plainWeight;
    const memory::desc &to = weightGrad ? parts.plainWeight : parts.weight;
    parts.reorder.emplace(engine, from, engine, to, library::userScratchpad());
  }
  return parts;
}

} // namespace dtc::rt
