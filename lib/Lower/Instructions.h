// Ops of a step function as instructions of a program.
#pragma once

#include "EvaluatedOps.h"
#include "RankGroups.h"
#include "Tokens.h"

#include "dtc-rt/Program_generated.h"
#include "dtc/Dialect/Exec/Queue.h"

#include "llvm/ADT/DenseMap.h"

namespace dtc::lower {

inline rt::fbs::Scope programScope(Scope scope) { return static_cast<rt::fbs::Scope>(scope); }
inline rt::fbs::Space programSpace(exec::Space space) {
  return static_cast<rt::fbs::Space>(space);
}
/// Of what there is one copy, all calls have the same, but places of messages and slots stay
/// what they are.
inline bool movesWithCall(const Home &home) {
  return home.count > 1 || home.scope() > Scope::Microbatch;
}

/// What launches say of a kernel.
struct ProgramKernel {
  uint32_t index = 0; ///< in the program's list
  uint64_t scratchBytes = 0;
  std::optional<rt::fbs::Geometry> geometry; ///< where a GPU runs it
};

/// The parts of a program that its functions share, each made when it is first asked for.
struct ProgramTables {
  RankGroups groups;
  std::vector<exec::Queue> queues = {exec::Queue()};
  std::vector<std::vector<int32_t>> peers = {};

  /// Of queues for collectives there are some at most; further axes share the first of them.
  uint8_t queue(const exec::Queue &queue);
  uint32_t peerList(llvm::ArrayRef<int32_t> ranks);
};

/// Translates one function. Addresses come from exec.offsets; those within the
/// home of which there are copies move with the call.
/// What instructions read and write is said by value: a reshape is its operand, and parts are of
/// the value that is cut or joined.
class FunctionTranslator {
public:
  FunctionTranslator(mlir::func::FuncOp function, const HomeTable &homes,
                     const EvaluatedOps &evaluated, const sharding::Mesh &mesh,
                     ProgramTables &tables, const llvm::StringMap<ProgramKernel> &kernels);

  /// Null after an error, for which there is a diagnostic.
  std::unique_ptr<rt::fbs::FunctionT> translate();
  /// Its exec.waits, after that.
  std::vector<Arrival> takeArrivals() { return std::move(arrivals); }

private:
  mlir::LogicalResult translateOp(mlir::Operation *op);
  mlir::LogicalResult translateLaunch(exec::LaunchOp op);
  mlir::LogicalResult translateMatmul(exec::MatmulOp op);
  mlir::LogicalResult translateConv(mlir::Operation *op);
  mlir::LogicalResult translateAttention(exec::AttentionOp op);
  mlir::LogicalResult translateCollective(mlir::Operation *op);
  mlir::LogicalResult translateAxisIndex(dist::AxisIndexOp op);
  mlir::LogicalResult translateMessage(mlir::Operation *op, rt::fbs::MessageKind kind,
                                       llvm::ArrayRef<int32_t> peers, int64_t channel);

  mlir::LogicalResult enterArguments();
  void enterResults();
  void enterValue(mlir::Value value, uint64_t offset, exec::Space space);
  std::vector<uint32_t> valuesOf(mlir::ValueRange range) const;
  mlir::FailureOr<uint32_t> groupOf(mlir::Operation *op);
  rt::fbs::Ref refAt(uint64_t offset, exec::Space space) const;
  rt::fbs::Ref shifted(mlir::Value value, int64_t elements) const;
  rt::fbs::Ref refOf(mlir::Value value) const;
  template <typename T> void append(mlir::Operation *op, T instruction);

  mlir::func::FuncOp function;
  const HomeTable &homes;
  const EvaluatedOps &evaluated;
  const sharding::Mesh &mesh;
  ProgramTables &tables;
  const llvm::StringMap<ProgramKernel> &kernels;
  llvm::DenseMap<mlir::Value, uint32_t> values; ///< indices into the function's
  llvm::SmallVector<const Home *> moving; ///< homes of which there are copies
  std::vector<Arrival> arrivals;
  std::unique_ptr<rt::fbs::FunctionT> result;
};

} // namespace dtc::lower
