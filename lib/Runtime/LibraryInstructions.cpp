// Matmul and convolution by oneDNN.
#include "Instructions.h"

#include "dtc-cpu/LibraryCalls.h"

namespace dtc::rt {
namespace {

using namespace cpu;
using dnnl::memory;

const dnnl::engine &engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

TensorLayout layoutOf(const fbs::Tensor &tensor) {
  return {tensor.dtype(), dimsOf(tensor.shape()), dimsOf(tensor.strides())};
}

/// The artifact has room for what the compiler's library needed; another build
/// of the library, or another processor, may need more.
Status checkScratch(uint64_t needed, uint64_t given) {
  if (needed <= given)
    return Status::ok();
  return {ExitCode::NoFit, "the library needs more scratch memory on this machine than where the "
                           "model was compiled (compile it again here): " +
                               std::to_string(needed) + " bytes, has " + std::to_string(given)};
}

class MatmulInstruction : public Instruction {
public:
  MatmulInstruction(const RankContext &context, const fbs::Matmul &op,
                    const dnnl::matmul::primitive_desc &desc)
      : stream(engine()), primitive(desc), a(context, *op.a()->ref()), b(context, *op.b()->ref()),
        c(context, *op.c()->ref()), aMemory(desc.src_desc(), engine(), nullptr),
        bMemory(desc.weights_desc(), engine(), nullptr),
        cMemory(desc.dst_desc(), engine(), nullptr),
        scratchMemory(desc.scratchpad_desc(), engine(), nullptr) {
    if (op.scratch())
      scratch = Place(context, *op.scratch());
    hasScratch = op.scratch() != nullptr && op.scratch_bytes() > 0;
    arguments = {{DNNL_ARG_SRC, aMemory},
                 {DNNL_ARG_WEIGHTS, bMemory},
                 {DNNL_ARG_DST, cMemory},
                 {DNNL_ARG_SCRATCHPAD, scratchMemory}};
  }

  Status run(const fbs::Call &call) override {
    try {
      aMemory.set_data_handle(a.at(call), stream);
      bMemory.set_data_handle(b.at(call), stream);
      cMemory.set_data_handle(c.at(call), stream);
      if (hasScratch)
        scratchMemory.set_data_handle(scratch.at(call), stream);
      primitive.execute(stream, arguments);
      return Status::ok();
    } catch (const dnnl::error &error) {
      return failed(std::string("oneDNN matmul failed: ") + error.what());
    }
  }

private:
  dnnl::stream stream;
  dnnl::matmul primitive;
  Place a, b, c, scratch;
  memory aMemory, bMemory, cMemory, scratchMemory;
  bool hasScratch = false;
  std::unordered_map<int, memory> arguments;
};

/// An operand of a convolution: the caller's memory, and the copy in scratch
/// where the primitive takes another layout.
class ConvMemory {
public:
  ConvMemory(const ConvOperand &operand, Place place)
      : place(place), copyBytes(operand.copyBytes()), plain(operand.plain, engine(), nullptr),
        used(operand.used, engine(), nullptr) {
    if (!operand.reorder)
      return;
    reorder = dnnl::reorder(*operand.reorder);
    scratchpad = memory(operand.reorder->scratchpad_desc(), engine(), nullptr);
  }

  const memory &argument() const { return used; }

  /// Sets the addresses for a call and returns where scratch goes on.
  char *setPlace(const fbs::Call &call, char *scratch, char *reorderScratch,
                 dnnl::stream &stream) {
    plain.set_data_handle(place.at(call), stream);
    used.set_data_handle(copyBytes ? scratch : place.at(call), stream);
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

  Place place;
  uint64_t copyBytes;
  memory plain, used, scratchpad;
  dnnl::reorder reorder;
};

class ConvInstruction : public Instruction {
public:
  ConvInstruction(const RankContext &context, const fbs::Conv &op, const ConvPrimitive &parts)
      : stream(engine()), primitive(parts.primitive), kind(op.kind()),
        input(parts.input, Place(context, *op.input()->ref())),
        weight(parts.weight, Place(context, *op.weight()->ref())),
        output(parts.output, Place(context, *op.output()->ref())), ownBytes(parts.ownBytes()),
        ownScratch(parts.primitive.scratchpad_desc(), engine(), nullptr) {
    hasScratch = op.scratch() != nullptr && op.scratch_bytes() > 0;
    if (hasScratch)
      scratch = Place(context, *op.scratch());
    bool forward = kind == fbs::ConvKind::Forward, weightGrad = kind == fbs::ConvKind::WeightGrad;
    bool inputGrad = kind == fbs::ConvKind::InputGrad;
    copiesBytes = parts.copyBytes();
    arguments = {{inputGrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, input.argument()},
                 {weightGrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weight.argument()},
                 {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, output.argument()},
                 {DNNL_ARG_SCRATCHPAD, ownScratch}};
  }

  Status run(const fbs::Call &call) override {
    try {
      setPlaces(call);
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

  void setPlaces(const fbs::Call &call) {
    char *own = hasScratch ? scratch.at(call) : nullptr, *reorders = nullptr, *next = own;
    if (hasScratch) {
      reorders = own + copiesBytes + ownBytes;
      ownScratch.set_data_handle(own + copiesBytes, stream);
    }
    for (ConvMemory *operand : {&input, &weight, &output})
      next = operand->setPlace(call, next, reorders, stream);
  }

  dnnl::stream stream;
  dnnl::primitive primitive;
  fbs::ConvKind kind;
  ConvMemory input, weight, output;
  uint64_t copiesBytes = 0, ownBytes;
  memory ownScratch;
  Place scratch;
  bool hasScratch = false;
  std::unordered_map<int, memory> arguments;
};

} // namespace

MadeInstruction makeMatmul(const RankContext &context, const fbs::Matmul &op) {
  MatmulCall call{layoutOf(*op.a()), layoutOf(*op.b()), layoutOf(*op.c())};
  try {
    auto desc = describe(call, engine());
    if (Status status = checkScratch(scratchBytes(desc), op.scratch_bytes()); !status.isOk())
      return status;
    return std::unique_ptr<Instruction>(std::make_unique<MatmulInstruction>(context, op, desc));
  } catch (const dnnl::error &error) {
    return Status(ExitCode::NoFit,
                  std::string("oneDNN has no such product on this machine: ") + error.what());
  }
}

MadeInstruction makeConv(const RankContext &context, const fbs::Conv &op) {
  ConvCall call{op.kind(),
                layoutOf(*op.input()),
                layoutOf(*op.weight()),
                layoutOf(*op.output()),
                dimsOf(op.strides()),
                dimsOf(op.pad_low()),
                dimsOf(op.pad_high()),
                dimsOf(op.dilations()),
                op.groups()};
  try {
    ConvPrimitive parts = describe(call, engine());
    if (Status status = checkScratch(parts.scratchBytes(), op.scratch_bytes()); !status.isOk())
      return status;
    return std::unique_ptr<Instruction>(std::make_unique<ConvInstruction>(context, op, parts));
  } catch (const dnnl::error &error) {
    return Status(ExitCode::NoFit,
                  std::string("oneDNN has no such convolution on this machine: ") + error.what());
  }
}

} // namespace dtc::rt
