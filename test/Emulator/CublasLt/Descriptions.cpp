#include "Emulator/CublasLt/Descriptions.h"

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

void checkLayout(const MatrixLayout &layout, const char *name) {
  std::string what = concat(name, " of ", layout.text());
  require(layout.rows > 0 && layout.columns > 0, what, " is empty");
  require(layout.leading >= static_cast<int64_t>(layout.runLength()), what,
          " has a leading dimension below the length of a run");
  require(layout.order == CUBLASLT_ORDER_COL || layout.order == CUBLASLT_ORDER_ROW, what,
          " has an unknown order");
  require(layout.batches >= 1, what, " has no batch");
}

void requireShape(const MatrixLayout &layout, bool isTransposed, uint64_t rows, uint64_t columns,
                  const char *name) {
  if (isTransposed)
    std::swap(rows, columns);
  require(layout.rows == rows && layout.columns == columns, name, " of ", layout.text(),
          " should have ", rows, " x ", columns);
}

bool isOutputTypeValid(cudaDataType_t input, cudaDataType_t output) {
  return output == input || ((input == CUDA_R_16BF || input == CUDA_R_16F) && output == CUDA_R_32F);
}

} // namespace

FloatKind kindOf(cudaDataType_t type) {
  switch (type) {
  case CUDA_R_32F:
    return FloatKind::F32;
  case CUDA_R_64F:
    return FloatKind::F64;
  case CUDA_R_16F:
    return FloatKind::F16;
  case CUDA_R_16BF:
    return FloatKind::BF16;
  }
  throw Fault(CUBLAS_STATUS_NOT_SUPPORTED, "unknown type of elements");
}

unsigned bytesOf(cudaDataType_t type) { return bytesOf(kindOf(type)); }

std::string MatrixLayout::text() const {
  return concat(rows, " x ", columns, " (leading ", leading,
                order == CUBLASLT_ORDER_COL ? ", columns, " : ", rows, ", batches, " batches)");
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
          "A, B, C and D have different counts of batches");
  uint64_t matrix = d.runs() * static_cast<uint64_t>(d.leading);
  require(d.batches == 1 || static_cast<uint64_t>(d.batchStride) >= d.runLength() || matrix == 0,
          "the batches of D overlap");
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
  constexpr cublasLtEpilogue_t known[] = {
      CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_BIAS,
      CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
      CUBLASLT_EPILOGUE_BGRADA,   CUBLASLT_EPILOGUE_BGRADB};
  if (description.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return;
  require(std::ranges::count(known, description.epilogue) > 0, CUBLAS_STATUS_NOT_SUPPORTED,
          "the emulator lacks epilogue ", description.epilogue);
  require(a.type != CUDA_R_64F, CUBLAS_STATUS_NOT_SUPPORTED, "fp64 has no epilogues");
  bool isMoreThanBias = description.usesAux() || description.sumsA() || description.sumsB();
  require(!isMoreThanBias || (d.batches == 1 && d.order == CUBLASLT_ORDER_COL),
          CUBLAS_STATUS_NOT_SUPPORTED,
          "the emulator has this epilogue for one matrix in order of columns alone");
  require(!description.usesAux() ||
              (description.auxLeading >= int64_t(m()) && description.auxLeading % 8 == 0),
          "GELU's input has a leading dimension of ", description.auxLeading,
          ", which must be a multiple of 8 and at least ", m());
}

uint64_t MatmulProblem::fingerprint() const {
  std::string text = concat(description.compute, " ", description.a, " ", description.b, " ",
                            description.epilogue, " ", description.auxLeading);
  for (const MatrixLayout &layout : {a, b, c, d})
    text += concat(" ", layout.type, " ", layout.text(), " ", layout.batchStride);
  return std::hash<std::string>()(text);
}

} // namespace dtc::emulator
