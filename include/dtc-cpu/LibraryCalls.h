// Which oneDNN primitives the Matmul and Conv records of a program stand for.
//
// Compiler and runtime make the primitives through the same code: the compiler to plan their
// scratch memory, the runtime to execute them. Memory is handed in by the caller ("user"
// scratchpad), so a call allocates nothing. oneDNN takes the number of threads from the calling
// thread (omp_set_num_threads). Set it to Program.threads before any function of this header.
//
// Errors are dnnl::error: the library has no primitive for the operands.
#pragma once

#include "dtc-rt/Program/TensorCalls.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <optional>
#include <string_view>

namespace dtc::cpu {

using rt::ConvCall;
using rt::Dims;
using rt::MatmulCall;
using rt::StridedTensor;

namespace library {

inline dnnl::memory::data_type typeOf(rt::fbs::DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
  case rt::fbs::DType::F32:
    return Type::f32;
  case rt::fbs::DType::BF16:
    return Type::bf16;
  case rt::fbs::DType::F16:
    return Type::f16;
  default:
    throw dnnl::error(dnnl_invalid_arguments, "no library product of this element type");
  }
}

inline dnnl::memory::desc describe(const StridedTensor &tensor) {
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
  dnnl::matmul::desc desc(library::describe(call.a), library::describe(call.b),
                          library::describe(call.c));
  return {desc, library::userScratchpad(), engine};
}

inline uint64_t scratchBytes(const dnnl::matmul::primitive_desc &primitive) {
  return library::alignScratch(primitive.scratchpad_desc().get_size());
}

/// An operand of a convolution: as the caller has it, and as the primitive takes
/// it. Where the two differ a copy goes through scratch.
struct ConvOperand {
  dnnl::memory::desc plain, used;
  std::optional<dnnl::reorder::primitive_desc> reorder; ///< into `used`; of the result, out of it

  uint64_t copyBytes() const { return reorder ? library::alignScratch(used.get_size()) : 0; }
  uint64_t reorderBytes() const {
    return reorder ? library::alignScratch(reorder->scratchpad_desc().get_size()) : 0;
  }
};

/// The primitive of a Conv. Scratch is
/// [input | weight | output | primitive's scratchpad | reorders' scratchpad].
struct ConvPrimitive {
  dnnl::primitive_desc primitive;
  ConvOperand input, weight, output;

  uint64_t copyBytes() const {
    return input.copyBytes() + weight.copyBytes() + output.copyBytes();
  }
  uint64_t ownBytes() const {
    return library::alignScratch(primitive.scratchpad_desc().get_size());
  }
  uint64_t scratchBytes() const {
    return copyBytes() + ownBytes() +
           std::max({input.reorderBytes(), weight.reorderBytes(), output.reorderBytes()});
  }
};

namespace library {

inline dnnl::memory::desc describeWeight(const ConvCall &call) {
  StridedTensor weight = call.weight;
  if (call.groups > 1) {
    // [o, c/groups, kernel...] -> [groups, o/groups, c/groups, kernel...]
    int64_t perGroup = weight.shape.at(0) / call.groups;
    weight.shape.at(0) = perGroup;
    weight.shape.insert(weight.shape.begin(), call.groups);
    weight.strides.insert(weight.strides.begin(), weight.strides.at(0) * perGroup);
  }
  return describe(weight);
}

inline dnnl::memory::desc anyLayout(const dnnl::memory::desc &desc) {
  return {desc.dims(), desc.data_type(), dnnl::memory::format_tag::any};
}

/// `desc` with the element type of `other`; the layout is then open.
inline dnnl::memory::desc typedLike(const dnnl::memory::desc &desc,
                                    const dnnl::memory::desc &other) {
  if (desc.data_type() == other.data_type())
    return desc;
  return {desc.dims(), other.data_type(), dnnl::memory::format_tag::any};
}

/// Asks for the primitive of `call` on operands laid out as in `parts.*.used`
/// ("any" lets the library choose), and says there what was chosen.
inline void choosePrimitive(const ConvCall &call, ConvPrimitive &parts,
                            const dnnl::engine &engine) {
  using namespace dnnl;
  constexpr auto kDirect = algorithm::convolution_direct;
  const memory::desc input = parts.input.used, weight = parts.weight.used,
                     output = parts.output.used;
  Dims dilations = call.dilations; // oneDNN counts the gaps
  for (int64_t &dilation : dilations)
    --dilation;
  // Gradients in f32 of a convolution in bf16: the forward one, which the library
  // wants to know, has bf16 in their place.
  bool inputGrad = call.kind == rt::fbs::ConvKind::InputGrad;
  convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, kDirect, inputGrad ? typedLike(input, weight) : input,
       inputGrad ? weight : typedLike(weight, input), output, call.strides, dilations,
       call.padLow, call.padHigh},
      userScratchpad(), engine);
  if (call.kind == rt::fbs::ConvKind::Forward) {
    parts.primitive = forward;
    parts.input.used = forward.src_desc();
    parts.weight.used = forward.weights_desc();
    parts.output.used = forward.dst_desc();
  } else if (call.kind == rt::fbs::ConvKind::WeightGrad) {
    convolution_backward_weights::primitive_desc backward(
        {kDirect, input, weight, output, call.strides, dilations, call.padLow, call.padHigh},
        userScratchpad(), engine, forward);
    parts.primitive = backward;
    parts.input.used = backward.src_desc();
    parts.weight.used = backward.diff_weights_desc();
    parts.output.used = backward.diff_dst_desc();
  } else {
    convolution_backward_data::primitive_desc backward(
        {kDirect, input, weight, output, call.strides, dilations, call.padLow, call.padHigh},
        userScratchpad(), engine, forward);
    parts.primitive = backward;
    parts.input.used = backward.diff_src_desc();
    parts.weight.used = backward.weights_desc();
    parts.output.used = backward.diff_dst_desc();
  }
}

inline void addReorder(ConvOperand &operand, bool isResult, const dnnl::engine &engine) {
  if (operand.used == operand.plain)
    return;
  const auto &from = isResult ? operand.used : operand.plain;
  const auto &to = isResult ? operand.plain : operand.used;
  operand.reorder.emplace(engine, from, engine, to, userScratchpad());
}

} // namespace library

/// Weights are brought into the layout that the library likes best. Data stays
/// as it is, which costs less than copying it, unless the library has only plain
/// loops for that (bf16 among others).
inline ConvPrimitive describe(const ConvCall &call, const dnnl::engine &engine) {
  ConvPrimitive parts;
  parts.input.plain = library::describe(call.input);
  parts.weight.plain = library::describeWeight(call);
  parts.output.plain = library::describe(call.output);
  auto attempt = [&](bool anyData) {
    for (ConvOperand *operand : {&parts.input, &parts.output})
      operand->used = anyData ? library::anyLayout(operand->plain) : operand->plain;
    parts.weight.used = library::anyLayout(parts.weight.plain);
    library::choosePrimitive(call, parts, engine);
  };
  bool isFast = false;
  try {
    attempt(false);
    isFast = std::string_view(parts.primitive.impl_info_str()).find("ref") == std::string::npos;
  } catch (const dnnl::error &) {
    isFast = false; // no primitive: perhaps for another layout
  }
  if (!isFast)
    attempt(true);
  library::addReorder(parts.input, call.kind == rt::fbs::ConvKind::InputGrad, engine);
  library::addReorder(parts.weight, call.kind == rt::fbs::ConvKind::WeightGrad, engine);
  library::addReorder(parts.output, call.kind == rt::fbs::ConvKind::Forward, engine);
  return parts;
}

} // namespace dtc::cpu
