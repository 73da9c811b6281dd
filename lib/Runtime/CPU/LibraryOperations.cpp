// Matmul and convolution by oneDNN.
#include "CpuOperations.h"

#include "dtc-cpu/LibraryCalls.h"

namespace dtc::rt {
namespace {

using namespace cpu;
using dnnl::memory;

const dnnl::engine &engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// The artifact has room for what the compiler's library needed; another build
/// of the library, or another processor, may need more.
Status checkScratch(uint64_t needed, uint64_t given) {
  if (needed <= given)
    return Status::ok();
  return {ErrorCategory::NoFit,
          "the library needs more scratch memory on this machine than where the "
          "model was compiled (compile it again here): " +
              std::to_string(needed) + " bytes, has " + std::to_string(given)};
}

class MatmulOperation : public CpuOperation {
public:
  MatmulOperation(CpuQueue &queue, const MatmulSpec &spec,
                  const dnnl::matmul::primitive_desc &desc)
      : CpuOperation(queue), stream(engine()), primitive(desc),
        hasScratch(spec.scratchBytes > 0), a(desc.src_desc(), engine(), nullptr),
        b(desc.weights_desc(), engine(), nullptr), c(desc.dst_desc(), engine(), nullptr),
        scratch(desc.scratchpad_desc(), engine(), nullptr),
        arguments{{DNNL_ARG_SRC, a},
                  {DNNL_ARG_WEIGHTS, b},
                  {DNNL_ARG_DST, c},
                  {DNNL_ARG_SCRATCHPAD, scratch}} {}

  Status run(const Address *addresses) override {
    try {
      a.set_data_handle(addresses[0], stream);
      b.set_data_handle(addresses[1], stream);
      c.set_data_handle(addresses[2], stream);
      if (hasScratch)
        scratch.set_data_handle(addresses[3], stream);
      primitive.execute(stream, arguments);
      return Status::ok();
    } catch (const dnnl::error &error) {
      return failed(std::string("oneDNN matmul failed: ") + error.what());
    }
  }

private:
  dnnl::stream stream;
  dnnl::matmul primitive;
  bool hasScratch;
  memory a, b, c, scratch;
  std::unordered_map<int, memory> arguments;
};

/// An operand of a convolution: the caller's memory, and the copy in scratch
/// where the primitive takes another layout.
class ConvMemory {
public:
  explicit ConvMemory(const ConvOperand &operand)
      : copyBytes(operand.copyBytes()), plain(operand.plain, engine(), nullptr),
        used(operand.used, engine(), nullptr) {
    if (!operand.reorder)
      return;
    reorder = dnnl::reorder(*operand.reorder);
    scratchpad = memory(operand.reorder->scratchpad_desc(), engine(), nullptr);
  }

  const memory &argument() const { return used; }

  /// Sets the addresses and returns where scratch goes on.
  char *setPlace(Address place, char *scratch, char *reorderScratch, dnnl::stream &stream) {
    plain.set_data_handle(place, stream);
    used.set_data_handle(copyBytes ? scratch : place, stream);
    if (copyBytes)
      scratchpad.set_data_handle(reorderScratch, stream);
    return scratch + copyBytes;
  }
  void copyIn(dnnl::stream &stream) { copy(plain, used, stream); }
  void copyOut(dnnl::stream &stream) { copy(used, plain, stream); }

private:
  void copy(memory &from, memory &to, dnnl::stream &stream) {
    if (copyBytes)
      reorder.execute(stream, {{DNNL_ARG_FROM, from},
                               {DNNL_ARG_TO, to},
                               {DNNL_ARG_SCRATCHPAD, scratchpad}});
  }

  uint64_t copyBytes;
  memory plain, used, scratchpad;
  dnnl::reorder reorder;
};

class ConvOperation : public CpuOperation {
public:
  ConvOperation(CpuQueue &queue, const ConvSpec &spec, const ConvPrimitive &parts)
      : CpuOperation(queue), stream(engine()), primitive(parts.primitive), kind(spec.call.kind),
        input(parts.input), weight(parts.weight), output(parts.output),
        copiesBytes(parts.copyBytes()), ownBytes(parts.ownBytes()),
        ownScratch(parts.primitive.scratchpad_desc(), engine(), nullptr),
        hasScratch(spec.scratchBytes > 0) {
    bool forward = kind == fbs::ConvKind::Forward, weightGrad = kind == fbs::ConvKind::WeightGrad;
    bool inputGrad = kind == fbs::ConvKind::InputGrad;
    arguments = {{inputGrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, input.argument()},
                 {weightGrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weight.argument()},
                 {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, output.argument()},
                 {DNNL_ARG_SCRATCHPAD, ownScratch}};
  }

  Status run(const Address *addresses) override {
    try {
      setPlaces(addresses);
      for (ConvMemory *operand : {&input, &weight, &output})
        if (operand != &result())
          operand->copyIn(stream);
      primitive.execute(stream, arguments);
      result().copyOut(stream);
      return Status::ok();
    } catch (const dnnl::error &error) {
      return failed(std::string("oneDNN convolution failed: ") + error.what());
    }
  }

private:
  ConvMemory &result() {
    return kind == fbs::ConvKind::Forward     ? output
           : kind == fbs::ConvKind::InputGrad ? input
                                              : weight;
  }

  void setPlaces(const Address *addresses) {
    char *own = hasScratch ? addresses[3] : nullptr, *reorders = nullptr, *next = own;
    if (hasScratch) {
      reorders = own + copiesBytes + ownBytes;
      ownScratch.set_data_handle(own + copiesBytes, stream);
    }
    for (ConvMemory *operand : {&input, &weight, &output})
      next = operand->setPlace(*addresses++, next, reorders, stream);
  }

  dnnl::stream stream;
  dnnl::primitive primitive;
  fbs::ConvKind kind;
  ConvMemory input, weight, output;
  uint64_t copiesBytes, ownBytes;
  memory ownScratch;
  bool hasScratch;
  std::unordered_map<int, memory> arguments;
};

} // namespace

MadeOperation makeMatmul(CpuQueue &queue, const MatmulSpec &spec) {
  if (spec.call.epilogue != fbs::Epilogue::None)
    return Status(ErrorCategory::NoFit, "processors have no products with an epilogue");
  if (spec.call.hasAddend)
    return Status(ErrorCategory::NoFit, "processors have no products that add to a tensor");
  try {
    auto desc = describe(spec.call, engine());
    if (Status status = checkScratch(scratchBytes(desc), spec.scratchBytes); !status.isOk())
      return status;
    return made<MatmulOperation>(queue, spec, desc);
  } catch (const dnnl::error &error) {
    return Status(ErrorCategory::NoFit,
                  std::string("oneDNN has no such product on this machine: ") + error.what());
  }
}

MadeOperation makeConv(CpuQueue &queue, const ConvSpec &spec) {
  if (spec.call.hasAddend)
    return Status(ErrorCategory::NoFit, "processors have no convolutions that add to a tensor");
  try {
    ConvPrimitive parts = describe(spec.call, engine());
    if (Status status = checkScratch(parts.scratchBytes(), spec.scratchBytes); !status.isOk())
      return status;
    return made<ConvOperation>(queue, spec, parts);
  } catch (const dnnl::error &error) {
    return Status(ErrorCategory::NoFit,
                  std::string("oneDNN has no such convolution on this machine: ") + error.what());
  }
}

} // namespace dtc::rt
