// What the collectives of a scheduled program take, and how much of that nothing is computed
// beside, by the cost model. The calls of each rank are played as the runtime issues them.
// Computation goes in order. So do collectives of one queue, each of which begins once all that
// stands before it is computed. An exec.wait, and the end of a function, wait for them. All slow
// down while computation and collectives run at once (OverlapSlowdown.h). Collectives of different
// queues share the links that they both use. Messages between stages take no time here.
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
#include "dtc/Dialect/Exec/Queue.h"
#include "dtc/Kernels/ElementTypes.h"
#include "dtc/Plan/Cost/CostModel.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Stages/Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <limits>
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
  exec::Queue queue;
  double left = 0;     ///< seconds that it still takes alone
  double computed = 0; ///< alone, when it was started
  int level = 0;       ///< of the network
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
      while (!underWay.empty())
        finish(underWay.front());
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
    const int level = int(model.groupShape(axes, mesh).level);
    auto started = std::make_shared<Collective>(Collective{
        &traffic, exec::Queue::of(op), seconds, computed, level, model.overlapSlowdown(level)});
    underWay.push_back(started);
    if (!exec::isStarted(op)) // in the order of what is computed
      return finish(started);
    for (Value result : op->getResults())
      open[result] = started;
  }

  void waitFor(Value value) {
    auto known = open.find(value);
    if (known == open.end())
      return; // a copy between host and device
    finish(known->second);
  }

  /// The first of each queue, which is on its way.
  std::vector<Started> firsts() const {
    std::vector<Started> result;
    for (const Started &each : underWay)
      if (std::ranges::none_of(result,
                               [&](const Started &other) { return other->queue == each->queue; }))
        result.push_back(each);
    return result;
  }

  /// How many of them use the links of one.
  static double sharersOf(const Collective &one, const std::vector<Started> &all) {
    return double(
        std::ranges::count_if(all, [&](const Started &each) { return each->level == one.level; }));
  }

  /// Until so many seconds have passed, or one has arrived; returns how many have. `slows`: beside
  /// computation.
  double advance(const std::vector<Started> &all, double seconds, bool slows) {
    auto paceOf = [&](const Collective &one) {
      return sharersOf(one, all) * (slows ? one.slowdown.communication : 1);
    };
    Started next;
    for (const Started &each : all)
      if (const double left = each->left * paceOf(*each); left <= seconds) {
        seconds = left;
        next = each;
      }
    for (const Started &each : all)
      each->left -= seconds / paceOf(*each);
    now += seconds;
    if (next)
      underWay.erase(std::ranges::find(underWay, next));
    return seconds;
  }

  /// Nothing is computed meanwhile.
  void finish(const Started &collective) {
    while (std::ranges::find(underWay, collective) != underWay.end()) {
      const std::vector<Started> all = firsts();
      const Started &first = *std::ranges::find(all, collective->queue, &Collective::queue);
      first->traffic->exposed += advance(all, std::numeric_limits<double>::infinity(), false);
    }
    if (collective->computed >= 0)
      collective->traffic->beside += computed - collective->computed;
    collective->computed = -1;
  }

  void compute(double seconds) {
    computed += seconds;
    while (seconds > 0) {
      const std::vector<Started> all = firsts();
      if (all.empty()) {
        now += seconds;
        return;
      }
      const Collective &slowest = **std::ranges::max_element(
          all, {}, [](const Started &each) { return each->slowdown.compute; });
      const double toEnd = seconds * slowest.slowdown.compute, passed = advance(all, toEnd, true);
      slowest.traffic->exposed += passed * (1 - 1 / slowest.slowdown.compute);
      seconds = passed == toEnd ? 0 : seconds - passed / slowest.slowdown.compute;
    }
  }

  ModuleOp rank;
  const plan::CostModel &model;
  sharding::Mesh mesh;
  SymbolTable symbols;
  double now = 0, computed = 0; ///< seconds so far, and those of what was computed, alone
  std::map<Key, Traffic> traffics;
  std::vector<Started> underWay; ///< as they were started, until they arrive
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
