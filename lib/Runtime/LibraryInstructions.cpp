// Matmul and convolution by oneDNN.
#include "Instructions.h"

#include "dtc-rt/LibraryCalls.h"

namespace dtc::rt {
namespace {

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

/// A convolution; its weights go through scratch where the primitive likes
/// another layout than the caller's.
class ConvInstruction : public Instruction {
public:
  ConvInstruction(const RankContext &context, const fbs::Conv &op, const ConvPrimitive &parts)
      : stream(engine()), primitive(parts.primitive), kind(op.kind()),
        input(context, *op.input()->ref()), weight(context, *op.weight()->ref()),
        output(context, *op.output()->ref()), inputMemory(parts.input, engine(), nullptr),
        plainMemory(parts.plainWeight, engine(), nullptr),
        weightMemory(parts.weight, engine(), nullptr),
        outputMemory(parts.output, engine(), nullptr),
        ownScratch(parts.primitive.scratchpad_desc(), engine(), nullptr) {
    if (op.scratch())
      scratch = Place(context, *op.scratch());
    hasScratch = op.scratch() != nullptr && op.scratch_bytes() > 0;
    weightBytes = parts.weightBytes();
    ownBytes = parts.ownBytes();
    if (parts.reorder) {
      reorder = dnnl::reorder(*parts.reorder);
      reorderScratch = memory(parts.reorder->scratchpad_desc(), engine(), nullptr);
    }
    bool forward = kind == fbs::ConvKind::Forward, weightGrad = kind == fbs::ConvKind::WeightGrad;
    arguments = {
        {kind == fbs::ConvKind::InputGrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, inputMemory},
        {weightGrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weightMemory},
        {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, outputMemory},
        {DNNL_ARG_SCRATCHPAD, ownScratch}};
  }

  Status run(const fbs::Call &call) override {
    try {
      place(call);
      if (reorder && kind != fbs::ConvKind::WeightGrad)
        reorderWeight(plainMemory, weightMemory);
      primitive.execute(stream, arguments);
      if (reorder && kind == fbs::ConvKind::WeightGrad)
        reorderWeight(weightMemory, plainMemory);
      return Status::ok();
    } catch (const dnnl::error &error) {
      return failed(std::string("oneDNN convolution failed: ") + error.what());
    }
  }

private:
  void place(const fbs::Call &call) {
    char *memory = hasScratch ? scratch.at(call) : nullptr;
    inputMemory.set_data_handle(input.at(call), stream);
    outputMemory.set_data_handle(output.at(call), stream);
    plainMemory.set_data_handle(weight.at(call), stream);
    weightMemory.set_data_handle(reorder ? memory : weight.at(call), stream);
    if (!hasScratch)
      return;
    ownScratch.set_data_handle(memory + weightBytes, stream);
    if (reorder)
      reorderScratch.set_data_handle(memory + weightBytes + ownBytes, stream);
  }

  void reorderWeight(memory &from, memory &to) {
    reorder.execute(stream, {{DNNL_ARG_FROM, from},
                             {DNNL_ARG_TO, to},
                             {DNNL_ARG_SCRATCHPAD, reorderScratch}});
  }

  dnnl::stream stream;
  dnnl::primitive primitive;
  fbs::ConvKind kind;
  Place input, weight, output, scratch;
  memory inputMemory, plainMemory, weightMemory, outputMemory, ownScratch, reorderScratch;
  dnnl::reorder reorder;
  bool hasScratch = false;
  uint64_t weightBytes = 0, ownBytes = 0;
  std::unordered_map<int, memory> arguments;
};

} // namespace

MadeInstruction makeMatmul(const RankContext &context, const fbs::Matmul &op) {
  MatmulCall call{layoutOf(*op.a()), layoutOf(*op.b()), layoutOf(*op.c()), op.accumulate()};
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
