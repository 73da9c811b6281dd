// Products by cuBLASLt.
#include "CudaOperations.h"
#include "MatmulPlan.h"
#include "ProductTuner.h"

#include <optional>

namespace dtc::rt::cuda {
namespace {

std::optional<cudaDataType_t> typeOf(fbs::DType dtype) {
  switch (dtype) {
  case fbs::DType::F32:
    return CUDA_R_32F;
  case fbs::DType::F64:
    return CUDA_R_64F;
  case fbs::DType::BF16:
    return CUDA_R_16BF;
  case fbs::DType::F16:
    return CUDA_R_16F;
  default:
    return std::nullopt;
  }
}

/// An object of cuBLASLt that is destroyed with its owner.
template <typename Handle> class Owned {
public:
  using Destroy = cublasStatus_t (*)(Handle);
  explicit Owned(Destroy destroy) : destroy(destroy) {}
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() {
    if (handle)
      destroy(handle);
  }
  Handle handle = nullptr;

private:
  Destroy destroy;
};

class MatmulOperation : public Operation {
public:
  MatmulOperation(CudaQueue &queue, Products &products, const MatmulSpec &spec, MatmulPlan given)
      : queue(queue), spec(spec), lt(products.calls()), cublas(products.handle()),
        plan(std::move(given)), workspaceBytes(workspaceIn(spec.scratchBytes)),
        isDouble(spec.call.c.dtype == fbs::DType::F64), desc(lt.cublasLtMatmulDescDestroy),
        first(lt.cublasLtMatrixLayoutDestroy), second(lt.cublasLtMatrixLayoutDestroy),
        result(lt.cublasLtMatrixLayoutDestroy) {
    elementBytes = {sizeOf(static_cast<DType>(spec.call.a.dtype)),
                    sizeOf(static_cast<DType>(spec.call.b.dtype)),
                    sizeOf(static_cast<DType>(spec.call.c.dtype))};
    for (const auto &call : plan.calls)
      for (size_t i = 0; i < 3; ++i)
        offsetBits |= static_cast<uint64_t>(call[i] * elementBytes[i]);
    hasEpilogue = spec.call.epilogue != fbs::Epilogue::None;
    size_t next = 3;
    if (hasVector(spec.call.epilogue))
      pointers.push_back({CUBLASLT_MATMUL_DESC_BIAS_POINTER, next++});
    if (spec.call.hasMatrix)
      pointers.push_back({CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, next++});
    if (spec.call.hasAddend)
      addend = next++;
    scratch = next;
  }

  Status prepare(ProductTuner *tuner);
  Status issue(std::span<const Address> addresses) override;

private:
  /// The algorithm for operands that begin at multiples of kWide bytes, or of an element.
  static constexpr uint32_t kWide = 16;
  /// With others, parts of a sum may be rounded to the result's type before they are added up.
  static constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  Status choose(bool isWide, ProductTuner *tuner);
  /// The best few of the heuristic.
  Result<std::vector<cublasLtMatmulAlgo_t>> ask(bool isWide, int most);
  /// All that the heuristic sees of the product.
  std::string nameOf(bool isWide) const;
  Status describe(Owned<cublasLtMatrixLayout_t> &layout, const MatrixPlan &matrix,
                  cudaDataType_t type) const;
  Status setTransposed(cublasLtMatmulDescAttributes_t which, const MatrixPlan &matrix) const;
  Status setEpilogue(const MatmulCall &call) const;
  template <typename Value>
  Status set(cublasLtMatmulDescAttributes_t attribute, const Value &value) const {
    return DTC_CUDA_CALL(lt, cublasLtMatmulDescSetAttribute, desc.handle, attribute, &value,
                         sizeof(value));
  }

  /// An attribute of the epilogue that is a pointer, and which of the addresses it has.
  struct Pointer {
    cublasLtMatmulDescAttributes_t attribute;
    size_t address;
  };

  CudaQueue &queue;
  MatmulSpec spec;
  const CublasLt &lt;
  cublasLtHandle_t cublas;
  MatmulPlan plan;
  uint64_t workspaceBytes;
  bool isDouble;
  std::array<int64_t, 3> elementBytes = {};
  uint64_t offsetBits = 0; ///< of all offsets in bytes
  bool hasEpilogue;
  std::vector<Pointer> pointers;
  size_t addend = 2;  ///< which address is that of what the product is added to
  size_t scratch = 3; ///< which address is the workspace's
  Owned<cublasLtMatmulDesc_t> desc;
  Owned<cublasLtMatrixLayout_t> first, second, result;
  std::shared_ptr<ProductChoice> choices[2]; ///< by whether operands are wide
};

Status MatmulOperation::describe(Owned<cublasLtMatrixLayout_t> &layout, const MatrixPlan &matrix,
                                 cudaDataType_t type) const {
  DTC_CUDA_TRY(DTC_CUDA_CALL(lt, cublasLtMatrixLayoutCreate, &layout.handle, type, matrix.rows,
                             matrix.cols, matrix.ld));
  if (plan.batchCount == 1)
    return Status::ok();
  DTC_CUDA_TRY(DTC_CUDA_CALL(lt, cublasLtMatrixLayoutSetAttribute, layout.handle,
                             CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &plan.batchCount,
                             sizeof(plan.batchCount)));
  return DTC_CUDA_CALL(lt, cublasLtMatrixLayoutSetAttribute, layout.handle,
                       CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batchStride,
                       sizeof(matrix.batchStride));
}

Status MatmulOperation::setTransposed(cublasLtMatmulDescAttributes_t which,
                                      const MatrixPlan &matrix) const {
  int32_t operation = matrix.isTransposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  return set(which, operation);
}

/// Rows of what cuBLASLt computes are columns of c, along which biases lie.
cublasLtEpilogue_t epilogueOf(const MatmulCall &call) {
  switch (call.epilogue) {
  case fbs::Epilogue::None:
    break;
  case fbs::Epilogue::Bias:
    return CUBLASLT_EPILOGUE_BIAS;
  case fbs::Epilogue::Gelu:
    return call.hasMatrix ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU;
  case fbs::Epilogue::BiasGelu:
    return call.hasMatrix ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
  case fbs::Epilogue::GeluGrad:
    return CUBLASLT_EPILOGUE_DGELU;
  case fbs::Epilogue::SumA: // a is the second operand
    return CUBLASLT_EPILOGUE_BGRADB;
  case fbs::Epilogue::SumB:
    return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// Sums are kept in fp32 at least. CUBLAS_COMPUTE_32F doesn't round operands to TF32.
cublasComputeType_t computeTypeOf(const MatmulCall &call) {
  if (call.c.dtype == fbs::DType::F64)
    return CUBLAS_COMPUTE_64F;
  return call.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Status MatmulOperation::setEpilogue(const MatmulCall &call) const {
  if (call.epilogue == fbs::Epilogue::None)
    return Status::ok();
  const bool isOne = plan.calls.size() == 1 && plan.batchCount == 1;
  if (!isOne || !plan.isSwapped || isDouble)
    return refused("cuBLASLt has no epilogue for such a product");
  DTC_CUDA_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogueOf(call)));
  if (!call.hasMatrix)
    return Status::ok();
  auto ld = static_cast<int64_t>(plan.result.rows);
  return set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
}

Status MatmulOperation::prepare(ProductTuner *tuner) {
  const MatmulCall &call = spec.call;
  auto operands = typeOf(call.a.dtype), results = typeOf(call.c.dtype);
  bool fits = operands && results && call.a.dtype == call.b.dtype &&
              (operands == results || (results == CUDA_R_32F && *operands != CUDA_R_64F));
  if (!fits)
    return refused("cuBLASLt has no product of these element types");
  DTC_CUDA_TRY(DTC_CUDA_CALL(lt, cublasLtMatmulDescCreate, &desc.handle, computeTypeOf(call),
                             isDouble ? CUDA_R_64F : CUDA_R_32F));
  DTC_CUDA_TRY(setTransposed(CUBLASLT_MATMUL_DESC_TRANSA, plan.first));
  DTC_CUDA_TRY(setTransposed(CUBLASLT_MATMUL_DESC_TRANSB, plan.second));
  DTC_CUDA_TRY(describe(first, plan.first, *operands));
  DTC_CUDA_TRY(describe(second, plan.second, *operands));
  DTC_CUDA_TRY(describe(result, plan.result, *results));
  DTC_CUDA_TRY(setEpilogue(call));
  return choose(/*isWide=*/offsetBits % kWide == 0, tuner);
}

std::string MatmulOperation::nameOf(bool isWide) const {
  const MatmulCall &call = spec.call;
  std::string text = std::string(rt::nameOf(static_cast<DType>(call.a.dtype))) + " -> " +
                     rt::nameOf(static_cast<DType>(call.c.dtype));
  for (const MatrixPlan *matrix : {&plan.first, &plan.second, &plan.result})
    text += ", " + std::to_string(matrix->rows) + "x" + std::to_string(matrix->cols) + " of " +
            std::to_string(matrix->ld) + " + " + std::to_string(matrix->batchStride) +
            (matrix->isTransposed ? " transposed" : "");
  return text + ", " + std::to_string(plan.batchCount) + " batches, epilogue " +
         std::to_string(epilogueOf(call)) + (call.hasAddend ? ", added" : "") +
         (call.tf32 ? ", TF32" : "") + ", aligned to " +
         std::to_string(isWide ? kWide : elementBytes[2]) + ", workspace " +
         std::to_string(workspaceBytes) + ", reductions " + std::to_string(kReductions);
}

Status MatmulOperation::choose(bool isWide, ProductTuner *tuner) {
  const std::string name = tuner ? nameOf(isWide) : "";
  choices[isWide] = tuner ? tuner->find(name) : nullptr;
  if (choices[isWide])
    return Status::ok();
  auto offered = ask(isWide, tuner ? ProductTuner::kMostAlgorithms : 1);
  if (!offered)
    return offered.status();
  choices[isWide] = std::make_shared<ProductChoice>(ProductChoice{std::move(*offered)});
  if (tuner)
    tuner->add(name, spec, choices[isWide]);
  return Status::ok();
}

Result<std::vector<cublasLtMatmulAlgo_t>> MatmulOperation::ask(bool isWide, int most) {
  Owned<cublasLtMatmulPreference_t> preference(lt.cublasLtMatmulPreferenceDestroy);
  DTC_CUDA_TRY(DTC_CUDA_CALL(lt, cublasLtMatmulPreferenceCreate, &preference.handle));
  DTC_CUDA_TRY(DTC_CUDA_CALL(lt, cublasLtMatmulPreferenceSetAttribute, preference.handle,
                             CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &kReductions,
                             sizeof(kReductions)));
  DTC_CUDA_TRY(DTC_CUDA_CALL(lt, cublasLtMatmulPreferenceSetAttribute, preference.handle,
                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspaceBytes,
                             sizeof(workspaceBytes)));
  for (auto [attribute, operand] : {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 0),
                                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 1},
                                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 2},
                                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 2}}) {
    auto alignment = isWide ? kWide : static_cast<uint32_t>(elementBytes[operand]);
    DTC_CUDA_TRY(DTC_CUDA_CALL(lt, cublasLtMatmulPreferenceSetAttribute, preference.handle,
                               attribute, &alignment, sizeof(alignment)));
  }
  // The heuristic asks the epilogue's pointers how they are aligned, and for nothing else.
  for (const Pointer &pointer : pointers)
    DTC_CUDA_TRY(set(pointer.attribute, isWide ? uint64_t(kWide) : uint64_t(elementBytes[2])));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(
      cublas, desc.handle, first.handle, second.handle, result.handle, result.handle,
      preference.handle, most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0))
    return Status(ErrorCategory::NoFit,
                  "cuBLASLt has no such product for " + queue.gpu.name() +
                      (!hasEpilogue ? ""
                                    : std::string(" with the epilogue ") +
                                          fbs::EnumNameEpilogue(spec.call.epilogue) +
                                          "; compile the model with "
                                          "DTC_CUBLASLT_EPILOGUES=0"));
  DTC_CUDA_TRY(lt.check(status, "cublasLtMatmulAlgoGetHeuristic"));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const cublasLtMatmulHeuristicResult_t &result : std::span(found).first(size_t(count)))
    if (result.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(result.algo);
  DTC_CUDA_TRY(lt.check(algorithms.empty() ? found[0].state : CUBLAS_STATUS_SUCCESS,
                        "cublasLtMatmulAlgoGetHeuristic"));
  return algorithms;
}

Status MatmulOperation::issue(std::span<const Address> addresses) {
  uint64_t bits = offsetBits;
  for (Address address : addresses.first(scratch))
    bits |= pointerOf(address);
  bool isWide = bits % kWide == 0;
  if (!choices[isWide])
    if (Status status = choose(isWide, /*tuner=*/nullptr); !status.isOk())
      return queue.note(std::move(status));
  const cublasLtMatmulAlgo_t &algorithm = choices[isWide]->algorithms[choices[isWide]->chosen];
  const double doubles[] = {1, spec.call.hasAddend ? 1.0 : 0.0};
  const float floats[] = {1, spec.call.hasAddend ? 1.0F : 0.0F};
  const void *alpha = isDouble ? static_cast<const void *>(&doubles[0]) : &floats[0];
  const void *beta = isDouble ? static_cast<const void *>(&doubles[1]) : &floats[1];
  for (const Pointer &pointer : pointers)
    if (Status status = set(pointer.attribute, uint64_t(pointerOf(addresses[pointer.address])));
        !status.isOk())
      return queue.note(std::move(status));
  Address workspace = workspaceBytes ? alignWorkspace(addresses[scratch]) : nullptr;
  for (const auto &call : plan.calls) {
    const char *a = addresses[0] + call[0] * elementBytes[0];
    const char *b = addresses[1] + call[1] * elementBytes[1];
    char *c = addresses[2] + call[2] * elementBytes[2];
    const char *added = addresses[addend] + call[2] * elementBytes[2];
    Status status = DTC_CUDA_CALL(lt, cublasLtMatmul, cublas, desc.handle, alpha,
                                  plan.isSwapped ? b : a, first.handle, plan.isSwapped ? a : b,
                                  second.handle, beta, added, result.handle, c, result.handle,
                                  &algorithm, workspace, workspaceBytes, queue.stream);
    if (!status.isOk())
      return queue.note(std::move(status));
  }
  return Status::ok();
}

} // namespace

MadeOperation makeMatmul(CudaQueue &queue, const MatmulSpec &spec, Products &products,
                         ProductTuner *tuner) {
  Result<MatmulPlan> plan = planMatmul(spec.call);
  if (!plan)
    return plan.status();
  DTC_CUDA_TRY(products.open());
  auto operation = std::make_unique<MatmulOperation>(queue, products, spec, std::move(*plan));
  DTC_CUDA_TRY(operation->prepare(tuner));
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace dtc::rt::cuda
