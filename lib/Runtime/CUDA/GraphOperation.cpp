// A recorded step: a graph of CUDA, which the driver launches as a whole.
#include "CudaOperations.h"

#include <cstdio>

namespace dtc::rt::cuda {
namespace {

class GraphOperation : public Operation {
public:
  GraphOperation(CudaQueue &queue, std::vector<RecordedCall> calls)
      : driver(queue.driver), stream(queue.stream), progress(queue.progress),
        calls(std::move(calls)) {
    progress.useBegins();
  }
  ~GraphOperation() override {
    if (exec)
      driver.cuGraphExecDestroy(exec);
    progress.useEnds();
  }

  Status instantiate(CUgraph graph) {
    return DTC_CUDA_CALL(driver, cuGraphInstantiateWithFlags, &exec, graph,
                         CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  }

  Status issue(std::span<const Address>) override {
    for (const RecordedCall &recorded : calls)
      if (Status status = recorded.group->enter(recorded.call); !status.isOk())
        return progress.fail(std::move(status));
    Status status = DTC_CUDA_CALL(driver, cuGraphLaunch, exec, stream);
    return status.isOk() ? status : progress.fail(std::move(status));
  }

private:
  const Driver &driver;
  CUstream stream;
  RankProgress &progress;
  std::vector<RecordedCall> calls;
  CUgraphExec exec = nullptr;
};

/// Captures what is issued to the queue's stream, and to streams that wait for it.
Status capture(CudaQueue &queue, const std::function<Status()> &issue, CUgraph &graph) {
  const Driver &driver = queue.driver;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuStreamBeginCapture_v2, queue.stream,
                             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  Status issued = issue();
  Status ended = DTC_CUDA_CALL(driver, cuStreamEndCapture, queue.stream, &graph);
  return issued.isOk() ? ended : issued;
}

} // namespace

MadeOperation recordGraph(CudaQueue &queue, const std::function<Status()> &issue) {
  CUgraph graph = nullptr;
  queue.progress.beginRecording();
  Status status = capture(queue, issue, graph);
  auto made = std::make_unique<GraphOperation>(queue, queue.progress.endRecording());
  if (status.isOk())
    status = made->instantiate(graph);
  if (graph)
    queue.driver.cuGraphDestroy(graph);
  if (status.isOk())
    return std::unique_ptr<Operation>(std::move(made));
  DTC_CUDA_TRY(queue.progress.status());
  std::fprintf(stderr, "dtc-run: note: steps are not launched as one graph on %s: %s\n",
               queue.gpu.name().c_str(), status.message().c_str());
  return std::unique_ptr<Operation>();
}

} // namespace dtc::rt::cuda
