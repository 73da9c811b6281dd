// Descriptors of attention and of the mask of its scores.
#include "Emulator/Cudnn/Attention.h"
#include "Emulator/Cudnn/Descriptors.h"

namespace dtc::emulator {

using namespace dtc::cuda;

static void require(bool condition, const std::string &message) {
  if (!condition)
    throw Fault(CUDNN_STATUS_BAD_PARAM, message);
}

void BackendDescriptor::finalizeMask() {
  auto made = std::make_shared<BandMask>();
  CudnnTensor scores = nested(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC).tensor(),
              masked = nested(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC).tensor();
  made->fill = nested(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC).tensor();
  require(scores.isVirtual && masked.isVirtual && scores.kind == FloatKind::F32 &&
              scores.dims == masked.dims && made->fill.isOfHost,
          "a mask takes scores in fp32 that lie in no memory, and a number of the host");
  require(one<cudnnPointwiseMode_t>(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE) ==
              CUDNN_POINTWISE_CMP_GE,
          "the emulator has masks of keys up to the query alone");
  made->dims = scores.dims;
  made->input = scores.id;
  made->output = masked.id;
  auto number = [&](cudnnBackendAttributeName_t name, std::optional<CudnnTensor> &into) {
    if (!has(name))
      return;
    into = nested(name).tensor();
    require(into->isOfHost && into->isInteger, "a sequence's length is an integer of the host");
  };
  number(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC, made->keys);
  number(CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC, made->queries);
  mask = std::move(made);
}

namespace {

/// The attributes of attention, forward or backward.
struct AttentionNames {
  cudnnBackendAttributeName_t query, key, value, output, stats, scale, mask, maskInput, maskOutput;
};

constexpr AttentionNames kForward = {CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID,
                                     CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID};
constexpr AttentionNames kBackward = {CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID,
                                      CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID};

} // namespace

void BackendDescriptor::finalizeAttention() {
  auto made = std::make_shared<Attention>();
  made->isBackward = ownType == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;
  const AttentionNames &names = made->isBackward ? kBackward : kForward;
  made->query = nested(names.query).tensor();
  made->key = nested(names.key).tensor();
  made->value = nested(names.value).tensor();
  made->output = nested(names.output).tensor();
  made->stats = nested(names.stats).tensor();
  if (made->isBackward) {
    made->outputGrad = nested(CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC).tensor();
    made->queryGrad = nested(CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC).tensor();
    made->keyGrad = nested(CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC).tensor();
    made->valueGrad = nested(CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC).tensor();
  }
  if (has(names.scale))
    made->scale = nested(names.scale).tensor();
  if (has(names.mask)) {
    const BackendDescriptor &graph = nested(names.mask);
    require(graph.mask != nullptr, "the scores of attention go through something else than a mask");
    require(one<int64_t>(names.maskInput) == graph.mask->input &&
                one<int64_t>(names.maskOutput) == graph.mask->output,
            "the graph of a mask has other ends than attention names");
    made->mask = *graph.mask;
  }
  made->check();
  operation = std::move(made);
}

} // namespace dtc::emulator
