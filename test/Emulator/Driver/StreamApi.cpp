// Streams, events, and graphs that are captured from streams.
#include "Emulator/Driver/Context.h"

namespace dtc::emulator {

namespace {

struct CapturedGraph {
  Device *device;
  Graph graph;
};

Handles<CapturedGraph> &graphHandles() {
  static auto *handles = new Handles<CapturedGraph>("graph");
  return *handles;
}

Handles<ExecutableGraph> &executableHandles() {
  static auto *handles = new Handles<ExecutableGraph>("executable graph");
  return *handles;
}

void requireNotCaptured(const Stream &stream) {
  if (stream.capture)
    throw Fault(cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is being captured");
}

constexpr int kLeastPriority = 0, kGreatestPriority = -5; // an H100's

cuda::CUstream createStream(unsigned flags, int priority) {
  Device &device = currentDevice();
  if (flags > cuda::CU_STREAM_NON_BLOCKING || priority > kLeastPriority ||
      priority < kGreatestPriority)
    throw Fault(cuda::CUDA_ERROR_INVALID_VALUE, "unknown flags, or no such priority");
  auto made = std::make_unique<Stream>(device, flags == cuda::CU_STREAM_DEFAULT, priority);
  device.add(*made);
  return streamHandles().add<cuda::CUstream>(std::move(made));
}

const Mark &recordedMark(const Event &event) {
  if (event.captured)
    throw Fault(cuda::CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture");
  return *event.mark;
}

} // namespace

Handles<Stream> &streamHandles() {
  static auto *handles = new Handles<Stream>("stream");
  return *handles;
}

Handles<Event> &eventHandles() {
  static auto *handles = new Handles<Event>("event");
  return *handles;
}

Stream &streamOf(cuda::CUstream handle) {
  Stream &stream = handle ? streamHandles().find(handle) : currentDevice().defaultStream();
  stream.device().checkHealthy();
  return stream;
}

} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return enter("cuStreamCreate", [&] { *stream = createStream(flags, kLeastPriority); });
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  return enter("cuStreamCreateWithPriority", [&] { *stream = createStream(flags, priority); });
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return enter("cuCtxGetStreamPriorityRange", [&] {
    *least = kLeastPriority;
    *greatest = kGreatestPriority;
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return enter("cuStreamDestroy", [&] {
    std::unique_ptr<Stream> taken = streamHandles().take(stream);
    taken->device().remove(*taken);
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return enter("cuStreamSynchronize", [&] {
    Stream &found = streamOf(stream);
    requireNotCaptured(found);
    found.device().orderDefaultStream(found);
    found.synchronize();
  });
}

CUresult cuStreamQuery(CUstream stream) {
  return enter("cuStreamQuery", [&] {
    Stream &found = streamOf(stream);
    requireNotCaptured(found);
    Mark mark = found.mark();
    // An idle worker needs a moment to come to the mark.
    for (int i = 0; i < 100 && !mark.ticket->done; ++i)
      std::this_thread::yield();
    if (!mark.ticket->done)
      throw Fault(CUDA_ERROR_NOT_READY, "not ready");
    Timeline::get().joinHost(mark.ticket->clock);
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return enter("cuStreamWaitEvent", [&] {
    Stream &found = streamOf(stream);
    Event &awaited = eventHandles().find(event);
    if (flags != CU_EVENT_WAIT_DEFAULT)
      throw Fault(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    if (awaited.captured) {
      std::shared_ptr<Capture> capture = awaited.captured->capture.lock();
      if (!capture)
        throw Fault(CUDA_ERROR_CAPTURED_EVENT,
                    "the event was recorded in a capture that has ended");
      capture->wait(found, *awaited.captured);
      return;
    }
    if (found.capture && awaited.mark)
      throw Fault(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                  "a captured stream waits for an event from outside of the capture");
    if (awaited.mark)
      found.wait(*awaited.mark);
  });
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return enter("cuEventCreate", [&] {
    currentDevice();
    if (flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
      throw Fault(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    auto made = std::make_unique<Event>();
    made->hasTiming = !(flags & CU_EVENT_DISABLE_TIMING);
    *event = eventHandles().add<CUevent>(std::move(made));
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return enter("cuEventDestroy", [&] { eventHandles().take(event); });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return enter("cuEventRecord", [&] {
    Stream &found = streamOf(stream);
    Event &recorded = eventHandles().find(event);
    if (found.capture) {
      recorded.captured = found.capture->mark(found);
      recorded.mark.reset();
      return;
    }
    found.device().orderDefaultStream(found);
    recorded.captured.reset();
    recorded.mark = found.mark();
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return enter("cuEventSynchronize", [&] {
    Event &found = eventHandles().find(event);
    if (!found.mark && !found.captured)
      return;
    const Mark &mark = recordedMark(found);
    Timeline::get().await(*mark.ticket);
    Timeline::get().joinHost(mark.ticket->clock);
    currentDevice().checkHealthy();
  });
}

CUresult cuEventQuery(CUevent event) {
  return enter("cuEventQuery", [&] {
    Event &found = eventHandles().find(event);
    if (!found.mark && !found.captured)
      return;
    const Mark &mark = recordedMark(found);
    if (!mark.ticket->done)
      throw Fault(CUDA_ERROR_NOT_READY, "not ready");
    Timeline::get().joinHost(mark.ticket->clock);
    currentDevice().checkHealthy();
  });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return enter("cuEventElapsedTime", [&] {
    Event &first = eventHandles().find(start), &last = eventHandles().find(end);
    if (!first.mark || !last.mark || !first.hasTiming || !last.hasTiming)
      throw Fault(CUDA_ERROR_INVALID_HANDLE,
                  "an event wasn't recorded, or was made without timing");
    if (!first.mark->ticket->done || !last.mark->ticket->done)
      throw Fault(CUDA_ERROR_NOT_READY, "not ready");
    std::chrono::duration<float, std::milli> elapsed =
        last.mark->ticket->at - first.mark->ticket->at;
    *milliseconds = elapsed.count();
  });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return enter("cuStreamBeginCapture", [&] {
    if (!stream)
      throw Fault(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the default stream can't be captured");
    (void)mode;
    Capture::begin(streamOf(stream));
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return enter("cuStreamEndCapture", [&] {
    Stream &found = streamOf(stream);
    if (!found.capture)
      throw Fault(CUDA_ERROR_INVALID_VALUE, "the stream isn't being captured");
    auto captured = std::make_unique<CapturedGraph>();
    captured->device = &found.device();
    captured->graph = found.capture->end(found);
    *graph = graphHandles().add<CUgraph>(std::move(captured));
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  return enter("cuGraphInstantiateWithFlags", [&] {
    if (flags & ~CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
      throw Fault(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    CapturedGraph &found = graphHandles().find(graph);
    if (found.graph.hasPriorities && flags == 0)
      throw Fault(CUDA_ERROR_INVALID_VALUE, "the priorities of captured streams would be lost");
    *exec = executableHandles().add<CUgraphExec>(
        std::make_unique<ExecutableGraph>(*found.device, found.graph));
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return enter("cuGraphLaunch", [&] {
    Stream &found = streamOf(stream);
    requireNotCaptured(found);
    executableHandles().find(exec).launch(found);
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return enter("cuGraphDestroy", [&] { graphHandles().take(graph); });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return enter("cuGraphExecDestroy", [&] { executableHandles().take(exec); });
}

} // namespace dtc::cuda
