// Which ops become one kernel.
//
// A cluster is a set of primitive ops that one kernel computes. Kernels pull
// values (ElementEvaluator.h), so any producer could be computed inside any consumer;
// what matters is how often. The way a value takes to a consumer is one of
//
//   same      element by element: arithmetic, aligned reshapes, the rows of a reduction or a pick
//   rows      one value a row, repeated along the columns
//   moved     another order, or a part: transposes, slices, concatenations
//   repeated  along other dimensions: would be computed again and again
//   looked up read in places that are only known at run time, or in windows
//
// Free ops are so cheap that each consumer computes them for itself: constants,
// iota, views, and short arithmetic on one large tensor. The others are visited
// backwards; each joins the cluster of its consumers if that is one cluster and
// the way allows it. A value that several clusters or library calls need is
// stored, and its cluster merged with the nearest consumer of the same rows.
// Totals of tensors, as the norm of all gradients has them, have a kernel for each shape. In one
// with their sum it would be another kernel for each set of parameters that a stage has.
// In half precision what is stored is narrow where it may be: y = round(f(x))
// rather than f(x) that only the rounding reads, and x rather than f(widen(x)).
#pragma once

#include "dtc/Kernels/KernelBody.h"
#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace dtc::kernels {

/// Ops that can be inside a kernel.
bool isPrimitive(mlir::Operation *op);

/// From a value to an op that needs it. A way of several steps is as costly as its worst.
using Way = Reach;

using OpSet = llvm::SmallSetVector<mlir::Operation *, 16>;
using ValueSet = llvm::SmallSetVector<mlir::Value, 16>;

struct Cluster {
  OpSet ops;
  int64_t rows = 0;     ///< rows kernels: their number
  bool columns = false; ///< a reduction that keeps the columns
  bool special = false; ///< scatter_add, cumsum, top_k, max_pool_grad, pick
  bool sumOfScalars = false; ///< has a sum of many scalars; two such stay apart
  bool sumOfTotals = false;  ///< has a sum of totals of tensors
  bool total = false;        ///< has a reduction of a tensor to a scalar
  bool window = false;  ///< has a reduction of few elements, written out in place
  bool merged = false;  ///< is part of another one now
};

class Clustering {
public:
  Clustering(mlir::func::FuncOp func, target::KernelLimits limits);

  std::vector<Cluster> clusters;
  llvm::DenseMap<mlir::Operation *, int> clusterOf; ///< of ops that are not free

  bool isFree(mlir::Operation *op) const { return freeOps.count(op); }
  /// Values that must be in memory because library calls or the function's results need them.
  bool isRequired(mlir::Value value) const { return required.count(value); }
  /// Values of a cluster that are needed outside of it.
  llvm::SmallVector<mlir::Value> outputsOf(int cluster) const;
  /// The free ops that a cluster repeats for itself, and the values that it reads.
  struct Inputs {
    OpSet repeated;
    ValueSet values;
  };
  Inputs inputsOf(int cluster) const;

  llvm::SmallVector<mlir::Operation *>
  inProgramOrder(llvm::ArrayRef<mlir::Operation *> ops) const;

  /// A cluster, or an op that stays in the function.
  struct Step {
    int cluster = -1;
    mlir::Operation *op = nullptr;
  };
  /// All that is done, producers first, otherwise in the order of the program.
  std::vector<Step> order() const;

private:
  struct Use {
    mlir::Operation *user;
    Way way;
  };

  void findRequired();
  void findFree();
  /// Free ops that an op is computed by, itself included, and the large values that these read.
  struct Chain {
    OpSet ops;
    ValueSet leaves;
  };
  mlir::Operation *narrowSourceOf(mlir::Operation *op) const;
  Chain chainOf(mlir::Operation *op, bool endsAtNarrow) const;
  bool isCheap(mlir::Operation *op, const Chain &chain) const;
  bool isCheapElementwise(mlir::Operation *op) const;
  void findLeavingRows();
  void assign(mlir::Operation *op);
  int newCluster(mlir::Operation *op);
  void storeRounded(mlir::Operation *op, int cluster);
  bool storeNarrowSource(mlir::Operation *op);
  /// The uses of a value by ops that are in clusters, through free ops. Ops are put into
  /// clusters backwards, so the uses of a value are known, and stay, once its turn comes.
  llvm::ArrayRef<Use> usesOf(mlir::Value value) const;
  void collectUses(mlir::Value value, llvm::SmallVector<Use> &uses) const;
  bool canJoin(mlir::Operation *op, int cluster, llvm::ArrayRef<Use> uses) const;
  bool canJoinReduction(graph::ReduceOp op, const Cluster &cluster,
                        llvm::ArrayRef<Use> uses) const;
  bool canJoinColumns(graph::ReduceOp op, const Cluster &cluster,
                      llvm::ArrayRef<Use> uses) const;
  bool fitsRows(int64_t rows, const Cluster &cluster) const;
  bool staysApart(bool isTotal, const Cluster &sum) const;
  bool mergeVertically(int producer);
  void mergeSiblings();
  bool wouldWait(int producer, int consumer, int64_t rows) const;
  bool canMerge(int producer, int consumer);
  bool areSiblings(int first, int second);
  bool haveSameColumns(int first, int second) const;
  bool haveSameExtent(int first, int second) const;
  int64_t largestReduced(int cluster) const;
  bool crossesBarrier(int first, int second) const;
  bool isReadElsewhere(int producer, int consumer) const;
  void merge(int from, int into);
  /// The clusters that read a value, through free ops, ascending.
  llvm::SmallVector<int> readersOf(mlir::Value value) const;
  unsigned firstPosition(int cluster) const;
  unsigned lastPosition(int cluster) const;

  // Clusters and other ops are nodes: cluster i is node i, the k-th other op is node
  // clusters.size() + k.

  /// The node that makes a value, or -1: arguments and what free ops make of them.
  int makerOf(mlir::Value value) const;
  llvm::SmallVector<int, 4> makersOf(mlir::ValueRange values) const;
  /// What a merged cluster is part of now, otherwise the node itself.
  int current(int node) const;
  /// True if a node depends on a cluster; `onlyIndirectly`: other than by reading what it makes.
  bool dependsOn(int node, int cluster, bool onlyIndirectly);
  std::vector<int> orderNodes() const;

  /// A line-up of all nodes such that producers come first, kept up to date by merges: what
  /// stands before a cluster cannot depend on it.
  void lineUp();
  void findBarriers();
  void mergeInLine(int from, int into);

  mlir::func::FuncOp func;
  target::KernelLimits limits;
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  llvm::SmallVector<mlir::Operation *> program;
  llvm::DenseSet<mlir::Operation *> primitives;
  llvm::DenseSet<mlir::Value> required;
  llvm::DenseSet<mlir::Operation *> freeOps;
  /// Ops whose values, or what is computed from them element by element, are needed otherwise
  /// than element by element or row by row.
  llvm::DenseSet<mlir::Operation *> leavingRows;
  std::vector<Inputs> inputs; ///< by cluster, before anything is outlined
  std::vector<mlir::Operation *> others;             ///< ops that are no part of kernels
  llvm::DenseMap<mlir::Operation *, int> nodeOf;     ///< of the others
  std::vector<llvm::SmallVector<int, 4>> needs;      ///< by node: those that make what it reads
  std::vector<int> mergedInto;                       ///< by cluster; itself if it is not merged
  std::vector<int> line, place;                      ///< nodes by place and the reverse
  std::vector<unsigned> barrier; ///< by node: of those that it waits behind, the last position
  std::vector<unsigned> visited;                     ///< by node: the last search that saw it
  unsigned search = 0;
  mutable llvm::DenseMap<mlir::Value, std::unique_ptr<llvm::SmallVector<Use>>> knownUses;
  llvm::DenseSet<mlir::Operation *> movedOps; ///< needed in another order than computed
};

} // namespace dtc::kernels
