#include "Emulator/CublasLt/Descriptions.h"

#include "Emulator/Device/Fault.h"

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

void checkLayout(const MatrixLayout &layout, const char *name) {
  std::string what = std::string(name) + " of " + layout.text();
  require(layout.rows > 0 && layout.columns > 0, CUBLAS_STATUS_INVALID_VALUE, what + " is empty");
  require(layout.leading >= static_cast<int64_t>(layout.runLength()), CUBLAS_STATUS_INVALID_VALUE,
          what + " has a leading dimension below the length of a run");
  require(layout.batches >= 1, CUBLAS_STATUS_INVALID_VALUE, what + " has no batch");
}

void requireShape(const MatrixLayout &layout, bool isTransposed, uint64_t rows, uint64_t columns,
                  const char *name) {
  if (isTransposed)
    std::swap(rows, columns);
  require(layout.rows == rows && layout.columns == columns, CUBLAS_STATUS_INVALID_VALUE,
          std::string(name) + " of " + layout.text() + " should have " + std::to_string(rows) +
              " x " + std::to_string(columns));
}

bool isOutputTypeValid(cudaDataType_t input, cudaDataType_t output) {
  return output == input || ((input == CUDA_R_16BF || input == CUDA_R_16F) && output == CUDA_R_32F);
}

} // namespace

unsigned bytesOf(cudaDataType_t type) {
  switch (type) {
  case CUDA_R_32F:
    return 4;
  case CUDA_R_64F:
    return 8;
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  }
  throw Fault(CUBLAS_STATUS_NOT_SUPPORTED, "unknown type of elements");
}

std::string MatrixLayout::text() const {
  return std::to_string(rows) + " x " + std::to_string(columns) + " (leading " +
         std::to_string(leading) + (order == CUBLASLT_ORDER_COL ? ", columns" : ", rows") + ", " +
         std::to_string(batches) + " batches)";
}

void MatmulProblem::check() const {
  checkLayout(a, "A");
  checkLayout(b, "B");
  checkLayout(c, "C");
  checkLayout(d, "D");
  requireShape(a, description.a == CUBLAS_OP_T, m(), k(), "A");
  requireShape(b, description.b == CUBLAS_OP_T, k(), n(), "B");
  requireShape(c, false, m(), n(), "C");
  require(a.batches == d.batches && b.batches == d.batches && c.batches == d.batches,
          CUBLAS_STATUS_INVALID_VALUE, "A, B, C and D have different counts of batches");
  uint64_t matrix = d.runs() * static_cast<uint64_t>(d.leading);
  require(d.batches == 1 || static_cast<uint64_t>(d.batchStride) >= d.runLength() || matrix == 0,
          CUBLAS_STATUS_INVALID_VALUE, "the batches of D overlap");
  require(a.type == b.type && c.type == d.type && isOutputTypeValid(a.type, d.type),
          CUBLAS_STATUS_NOT_SUPPORTED, "this combination of types isn't supported");
  bool isDouble = a.type == CUDA_R_64F;
  bool isTf32 = description.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  require(
      isDouble == (description.compute == CUBLAS_COMPUTE_64F) && (!isTf32 || a.type == CUDA_R_32F),
      CUBLAS_STATUS_NOT_SUPPORTED, "the type of computing doesn't fit the types of the matrices");
  require(description.scaleType == (isDouble ? CUDA_R_64F : CUDA_R_32F),
          CUBLAS_STATUS_NOT_SUPPORTED,
          "the type of alpha and beta doesn't fit the type of computing");
  checkEpilogue();
}

MatrixLayout MatmulProblem::auxLayout() const {
  MatrixLayout layout = d;
  layout.leading = description.auxLeading;
  return layout;
}

void MatmulProblem::checkEpilogue() const {
  switch (description.epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
    return;
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_GELU:
  case CUBLASLT_EPILOGUE_GELU_BIAS:
  case CUBLASLT_EPILOGUE_GELU_AUX:
  case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DGELU:
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    break;
  default:
    throw Fault(CUBLAS_STATUS_NOT_SUPPORTED,
                "the emulator lacks epilogue " + std::to_string(description.epilogue));
  }
  require(a.type != CUDA_R_64F, CUBLAS_STATUS_NOT_SUPPORTED, "fp64 has no epilogues");
  bool isMoreThanBias = description.usesAux() || description.sumsA() || description.sumsB();
  require(!isMoreThanBias || (d.batches == 1 && d.order == CUBLASLT_ORDER_COL),
          CUBLAS_STATUS_NOT_SUPPORTED,
          "the emulator has this epilogue for one matrix in order of columns alone");
  require(!description.usesAux() ||
              (description.auxLeading >= int64_t(m()) && description.auxLeading % 8 == 0),
          CUBLAS_STATUS_INVALID_VALUE,
          "GELU's input has a leading dimension of " + std::to_string(description.auxLeading) +
              ", which must be a multiple of 8 and at least " + std::to_string(m()));
}

uint64_t MatmulProblem::fingerprint() const {
  uint64_t hash = 1469598103934665603u;
  auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const MatrixLayout *layout : {&a, &b, &c, &d}) {
    mix(layout->type);
    mix(layout->order);
    mix(layout->rows);
    mix(layout->columns);
    mix(static_cast<uint64_t>(layout->leading));
    mix(static_cast<uint64_t>(layout->batches));
    mix(static_cast<uint64_t>(layout->batchStride));
  }
  mix(description.compute);
  mix(description.a);
  mix(description.b);
  mix(description.epilogue);
  mix(static_cast<uint64_t>(description.auxLeading));
  return hash;
}

} // namespace dtc::emulator
