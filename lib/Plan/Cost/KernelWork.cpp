// What ops move as dtc's own programs on GPUs compute them: in kernels that several ops share, and
// beside a library's products.
#include "dtc/Plan/Cost/OpWork.h"

#include "dtc/Plan/Cost/AttentionForm.h"

#include <algorithm>

namespace dtc::plan {

using sharding::Mesh;
using sharding::OpSharding;

/// What isn't stored is part of a kernel that reads the product's result, unless what reads it is
/// made with a product, too.
bool OpWork::isInProduct(OpId id) const {
  const Op &op = problem.ops[id];
  if (!op.inProduct || !isOwn())
    return false;
  const std::vector<OpId> &readers = facts.consumers[op.results[0]];
  return exists(op.results[0]) || std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
           return problem.ops[reader].inProduct;
         });
}

/// Of an op that a library computes while it makes a product. The result of a sum or of a gradient
/// takes the product's place, and the other operand is read. GELU and sums have another result.
double OpWork::bytesBesideProduct(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  if (op.operands.size() == 1)
    return double(localBytes(problem.values[op.results[0]], op.rule->results[0], choice, mesh));
  auto isProduct = [&](ValueId value) {
    OpId producer = facts.producer[value];
    while (producer >= 0 && problem.ops[producer].kind == OpKind::View)
      producer = facts.producer[problem.ops[producer].operands[0]];
    return producer >= 0 && problem.ops[producer].kind == OpKind::Contraction;
  };
  double bytes = 0;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (ValueId operand = op.operands[i]; !isProduct(operand) && !isParameter(operand))
      bytes += double(localBytes(problem.values[operand], op.rule->operands[i], choice, mesh));
  return bytes;
}

bool OpWork::isOwn() const { return model.isOwnProgram(); }

/// Of what an op adds to its kernels. Of a larger tensor a view's kernel reads that part alone.
double OpWork::countedBytes(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  const KernelPart &part = facts.kernelParts[id];
  double bytes = 0;
  for (size_t i = 0; i < op.results.size(); ++i)
    bytes += part.writes[i] *
             double(localBytes(problem.values[op.results[i]], op.rule->results[i], choice, mesh));
  for (size_t i = 0; i < op.operands.size(); ++i) {
    auto whole =
        double(localBytes(problem.values[op.operands[i]], op.rule->operands[i], choice, mesh));
    if (op.kind == OpKind::Reindex)
      whole = std::min(whole, double(localBytes(problem.values[op.results[0]], op.rule->results[0],
                                                choice, mesh)));
    bytes += part.reads[i] * whole;
  }
  return bytes;
}

/// Bytes of the rows of a table to which a sum by index adds.
double OpWork::rowsAdded(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  const Value &table = problem.values[op.results[0]], &rows = problem.values[op.operands.back()];
  return double(localBytes(rows, op.rule->operands.back(), choice, mesh)) /
         double(byteSize(rows.type)) * double(byteSize(table.type));
}

double OpWork::sumSeconds(OpId id, int64_t bytes) const {
  const Op &op = problem.ops[id];
  auto isTerm = [&](size_t i) {
    return problem.values[op.operands[i]].kind != ValueKind::Accumulator;
  };
  size_t terms = 0, passes = 0;
  const KernelPart &part = facts.kernelParts[id];
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (isTerm(i)) {
      ++terms;
      passes += static_cast<size_t>(part.reads[i]);
    }
  if (terms < 2)
    return 0;
  if (!isOwn())
    return model.gradientSumSeconds(double(bytes), terms);
  passes += static_cast<size_t>(part.writes[0]);
  return model.opSeconds({.bytes = double(passes) * double(bytes), .kernels = part.launches});
}

} // namespace dtc::plan
