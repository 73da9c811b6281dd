#include "LibraryScratch.h"

#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

extern "C" {
// libgomp's, which oneDNN uses; its header is not where clang looks.
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);
}

namespace dtc::cpu {
namespace {

StridedTensor stridedTensor(const rt::fbs::TensorT &tensor) {
  return {tensor.dtype, tensor.shape, tensor.strides};
}

uint64_t libraryScratch(Operation *op) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  if (auto matmul = dyn_cast<exec::MatmulOp>(op))
    return scratchBytes(describe(callOf(target::matmulRecord(matmul)), engine));
  return describe(callOf(target::convRecord(op)), engine).scratchBytes();
}

/// An attribute that is the same for calls that are: the op's own attributes
/// and its types.
Attribute signatureOf(Operation *op) {
  Builder builder(op->getContext());
  auto function = builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
  return builder.getArrayAttr({builder.getStringAttr(op->getName().getStringRef()),
                               op->getPropertiesAsAttribute(), TypeAttr::get(function)});
}

} // namespace

MatmulCall callOf(const rt::fbs::MatmulT &record) {
  return {stridedTensor(*record.a), stridedTensor(*record.b), stridedTensor(*record.c)};
}

ConvCall callOf(const rt::fbs::ConvT &record) {
  return {record.kind,
          stridedTensor(*record.input),
          stridedTensor(*record.weight),
          stridedTensor(*record.output),
          record.strides,
          record.pad_low,
          record.pad_high,
          record.dilations,
          record.groups};
}

LibraryThreads::LibraryThreads(int64_t threads) : before(omp_get_max_threads()) {
  omp_set_num_threads(static_cast<int>(threads));
}
LibraryThreads::~LibraryThreads() { omp_set_num_threads(before); }

FailureOr<uint64_t> LibraryScratch::bytesOf(Operation *op) {
  if (auto launch = dyn_cast<exec::LaunchOp>(op)) {
    auto kernel = symbols.lookup<exec::KernelOp>(launch.getKernel());
    if (!kernel)
      return op->emitOpError("kernel is not declared: ") << launch.getKernel();
    return kernel.getScratchBytes() * static_cast<uint64_t>(threads);
  }
  if (!isa<exec::MatmulOp>(op) && !target::isConv(op))
    return uint64_t{0};
  auto [entry, isNew] = known.try_emplace(signatureOf(op), 0);
  if (!isNew)
    return entry->second;
  try {
    return entry->second = libraryScratch(op);
  } catch (const dnnl::error &error) {
    return op->emitOpError("the library can't compute it for these types and shapes: ")
           << error.what();
  }
}

} // namespace dtc::cpu
