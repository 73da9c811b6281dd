// What the collectives of a scheduled program take, and how much of that nothing is computed
// beside, by the cost model. The calls of each rank are played on two streams as the runtime issues
// them. Computation goes in order. A collective with a queue of its own begins once all that stands
// before it is computed, and those before it on the queue have ended. An exec.wait, and the end of a
// function, wait for it. Both streams slow down while both run (OverlapSlowdown.h). Messages between
// stages take no time here.
//
// One JSON object for each module of a rank:
//
//   {"computing_s": 0.05, "step_s": 0.06, "collectives": [{"kind": "all_reduce", "axes": "dp",
//    "calls": 2, "bytes": 1e8, "seconds": 0.002, "beside_s": 0.03, "exposed_s": 0.0004}, ...]}
//
// beside_s is the work that is issued between starts and waits. exposed_s has the time in which
// only that kind runs, and by how much it slows computation down.
#include "KernelBytes.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Kernels/ElementTypes.h"
#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Stages/Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

using namespace mlir;
using namespace dtc;

namespace {

/// Of all collectives of a kind and group.
struct Traffic {
  int64_t calls = 0;
  double bytes = 0, seconds = 0, beside = 0, exposed = 0;
};
using Key = std::pair<std::string, std::string>; ///< kind, axes

struct Collective {
  Traffic *traffic = nullptr;
  double left = 0;     ///< seconds that it still takes alone
  double computed = 0; ///< alone, when it was started
  plan::OverlapSlowdown slowdown;
};
using Started = std::shared_ptr<Collective>;

double bytesOf(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      bytes += double(type.getNumElements() * kernels::storageBytes(type.getElementType()));
  return bytes;
}

plan::DType typeOf(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return type.isBF16()  ? plan::DType::BF16
         : type.isF16() ? plan::DType::F16
                        : plan::DType::F32;
}

std::optional<sharding::StepKind> kindOf(Operation *op) {
  if (isa<dist::AllReduceOp>(op))
    return sharding::StepKind::AllReduce;
  if (isa<dist::ReduceScatterOp>(op))
    return sharding::StepKind::ReduceScatter;
  if (isa<dist::AllGatherOp>(op))
    return sharding::StepKind::AllGather;
  if (isa<dist::AllToAllOp>(op))
    return sharding::StepKind::AllToAll;
  if (isa<dist::PermuteOp>(op))
    return sharding::StepKind::Permute;
  return std::nullopt;
}

/// One rank's step.
class Player {
public:
  Player(ModuleOp rank, const plan::CostModel &model, sharding::Mesh mesh)
      : rank(rank), model(model), mesh(std::move(mesh)), symbols(rank) {}

  void run() {
    rank.walk([&](exec::CallOp call) {
      auto function = symbols.lookup<func::FuncOp>(call.getCallee());
      for (Operation &op : function.getBody().front())
        play(&op);
    });
  }

  llvm::json::Object result() const {
    llvm::json::Array all;
    for (const auto &[key, traffic] : traffics)
      all.push_back(llvm::json::Object{{"kind", key.first},
                                       {"axes", key.second},
                                       {"calls", traffic.calls},
                                       {"bytes", traffic.bytes},
                                       {"seconds", traffic.seconds},
                                       {"beside_s", traffic.beside},
                                       {"exposed_s", traffic.exposed}});
    return llvm::json::Object{
        {"computing_s", computed}, {"step_s", now}, {"collectives", std::move(all)}};
  }

private:
  void play(Operation *op) {
    if (std::optional<sharding::StepKind> kind = kindOf(op)) {
      exchange(op, *kind);
    } else if (auto wait = dyn_cast<exec::WaitOp>(op)) {
      waitFor(wait.getInput());
    } else if (isa<func::ReturnOp>(op)) {
      while (!queue.empty())
        finish(queue.front());
      open.clear();
    } else {
      compute(secondsOf(op));
    }
  }

  double secondsOf(Operation *op) const {
    plan::LocalWork work;
    if (auto launch = dyn_cast<exec::LaunchOp>(op)) {
      auto kernel = symbols.lookup<exec::KernelOp>(launch.getKernel());
      // Code for any size has that of one of its launches, and an update has many tensors.
      const bool isOfAnySize = kernel.getFlat() || kernel.getPieces() > 1;
      work.bytes = isOfAnySize ? bytesOf(op->getOperands()) + bytesOf(op->getResults())
                               : test::bytesMoved(launch, kernel);
    } else if (auto matmul = dyn_cast<exec::MatmulOp>(op)) {
      work.type = typeOf(matmul.getLhs());
      work.batch = 1;
      for (int64_t size : matmul.getBatch())
        work.batch *= size;
      work.m = matmul.getMnk()[0];
      work.n = matmul.getMnk()[1];
      work.k = matmul.getMnk()[2];
      work.flops = 2 * double(work.batch) * double(work.m) * double(work.n) * double(work.k);
      work.bytes = bytesOf(op->getOperands()) + bytesOf(op->getResults());
    } else if (auto attention = dyn_cast<exec::AttentionOp>(op)) {
      addAttention(attention, work);
    } else if (isa<exec::CopyOp, exec::ZeroOp>(op)) {
      work.bytes = bytesOf(op->getOperands()) + bytesOf(op->getResults());
    } else {
      return 0; // views, messages
    }
    return model.opSeconds(work);
  }

  static void addAttention(exec::AttentionOp op, plan::LocalWork &work) {
    ArrayRef<int64_t> query = op.placeOf(0).getShape(), key = op.placeOf(1).getShape();
    work.attention = true;
    work.type = typeOf(op.getInputs()[0]);
    work.causal = op.getCausal();
    work.window = int64_t(op.getWindow().value_or(0));
    work.backward = op.getBackward();
    work.batch = query[0] * query[2];
    work.m = query[1];
    work.n = key[1];
    work.k = query[3];
    constexpr double forward = 4, backward = 10;
    work.flops = (work.backward ? backward : forward) * double(work.batch) * double(work.m) *
                 double(work.n) * double(work.k);
    work.bytes = bytesOf(op->getOperands()) + bytesOf(op->getResults());
  }

  void exchange(Operation *op, sharding::StepKind kind) {
    auto names = op->getAttrOfType<dist::AxesAttr>("axes");
    const sharding::AxisList axes = *dist::toAxes(names, mesh);
    std::string text;
    for (StringAttr name : names.getNames())
      text += (text.empty() ? "" : ",") + name.str();
    Traffic &traffic = traffics[{op->getName().stripDialect().str(), text}];
    const double bytes = std::max(bytesOf(op->getOperands()), bytesOf(op->getResults()));
    const double seconds = model.collectiveSeconds(kind, axes, bytes, mesh);
    ++traffic.calls;
    traffic.bytes += bytes;
    traffic.seconds += seconds;
    auto started = std::make_shared<Collective>(
        Collective{&traffic, seconds, computed,
                   model.overlapSlowdown(model.groupShape(axes, mesh).level)});
    if (!op->hasAttr(exec::ExecDialect::kQueue)) { // in the order of what is computed
      traffic.exposed += seconds;
      now += seconds;
      return;
    }
    queue.push_back(started);
    for (Value result : op->getResults())
      open[result] = started;
  }

  void waitFor(Value value) {
    auto known = open.find(value);
    if (known == open.end())
      return; // a copy between host and device
    finish(known->second);
  }

  /// Nothing is computed meanwhile.
  void finish(const Started &collective) {
    while (std::find(queue.begin(), queue.end(), collective) != queue.end()) {
      Started first = queue.front();
      now += first->left;
      first->traffic->exposed += first->left;
      leave();
    }
    if (collective->computed >= 0)
      collective->traffic->beside += computed - collective->computed;
    collective->computed = -1;
  }

  void leave() {
    queue.front()->left = 0;
    queue.pop_front();
  }

  void compute(double seconds) {
    computed += seconds;
    while (seconds > 0) {
      if (queue.empty()) {
        now += seconds;
        return;
      }
      Collective &first = *queue.front();
      const double toEnd = seconds * first.slowdown.compute,
                   toArrival = first.left * first.slowdown.communication,
                   passed = std::min(toEnd, toArrival);
      now += passed;
      first.traffic->exposed += passed * (1 - 1 / first.slowdown.compute);
      if (toArrival <= toEnd) {
        leave();
        seconds = toEnd == passed ? 0 : seconds - passed / first.slowdown.compute;
      } else {
        first.left -= passed / first.slowdown.communication;
        seconds = 0;
      }
    }
  }

  ModuleOp rank;
  const plan::CostModel &model;
  sharding::Mesh mesh;
  SymbolTable symbols;
  double now = 0, computed = 0; ///< seconds so far, and those of what was computed, alone
  std::map<Key, Traffic> traffics;
  std::deque<Started> queue; ///< that haven't arrived; the first one is on its way
  llvm::DenseMap<Value, Started> open;
};

struct ExposedCollectivesPass
    : PassWrapper<ExposedCollectivesPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExposedCollectivesPass)

  ExposedCollectivesPass() = default;
  ExposedCollectivesPass(const ExposedCollectivesPass &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-exposed-collectives"; }
  StringRef getDescription() const override {
    return "prints what the collectives of a scheduled program take, and how much of it is exposed";
  }

  void runOnOperation() override {
    plan::Result<plan::Cluster> found = plan::loadCluster(cluster);
    if (!found) {
      getOperation().emitError("unknown cluster: ") << cluster;
      return signalPassFailure();
    }
    SmallVector<ModuleOp> ranks = stages::rankModules(getOperation());
    int64_t first = 0, devices = 0;
    std::vector<sharding::Mesh> meshes;
    for (ModuleOp rank : ranks) {
      auto mesh = rank.getOps<dist::MeshOp>();
      meshes.push_back(mesh.empty() ? sharding::Mesh() : dist::toMesh(*mesh.begin()));
      devices += meshes.back().devices();
    }
    for (auto [rank, mesh] : llvm::zip_equal(ranks, meshes)) {
      const plan::CostModel model(*found, devices, {first, mesh.devices()});
      Player player(rank, model, mesh);
      player.run();
      llvm::outs() << llvm::json::Value(player.result()) << "\n";
      first += mesh.devices();
    }
  }

  Option<std::string> cluster{*this, "cluster", llvm::cl::init("dgx-h100"),
                              llvm::cl::desc("a built-in cluster, or a file")};
};

} // namespace

namespace dtc::test {
void registerExposedCollectivesPass() { PassRegistration<ExposedCollectivesPass>(); }
} // namespace dtc::test
