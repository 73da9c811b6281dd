// Streams, events, and graphs that are captured from streams.
#include "Emulator/Driver/Context.h"

namespace dtc::emulator {

namespace {

struct CapturedGraph {
  static constexpr const char *kWhat = "graph";
  Device *device;
  Graph graph;
};

Stream &uncaptured(cuda::CUstream handle) {
  Stream &stream = streamOf(handle);
  require(!stream.capture, cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "the stream is being captured");
  return stream;
}

constexpr int kLeastPriority = 0, kGreatestPriority = -5; // an H100's

cuda::CUstream createStream(unsigned flags, int priority) {
  Device &device = currentDevice();
  require(flags == cuda::CU_STREAM_NON_BLOCKING, cuda::CUDA_ERROR_NOT_SUPPORTED,
          "the emulator has no streams that wait for the default one");
  require(priority <= kLeastPriority && priority >= kGreatestPriority,
          cuda::CUDA_ERROR_INVALID_VALUE, "no such priority");
  return handles<Stream>().make<cuda::CUstream>(device, priority);
}

void requireDone(const Ticket &ticket) {
  require(ticket.done, cuda::CUDA_ERROR_NOT_READY, "not ready");
}

/// The host knows that an event is over, once `arrive` has returned.
template <typename Arrive> void joinEvent(cuda::CUevent handle, Arrive &&arrive) {
  Event &event = handles<Event>().find(handle);
  require(!event.captured, cuda::CUDA_ERROR_CAPTURED_EVENT,
          "the event was last recorded in a capture");
  if (!event.mark)
    return;
  arrive(*event.mark->ticket);
  Timeline::get().joinHost(event.mark->ticket->clock);
  currentDevice().checkHealthy();
}

} // namespace

Stream &streamOf(cuda::CUstream handle) {
  Stream &stream = handle ? handles<Stream>().find(handle) : currentDevice().defaultStream();
  stream.device().checkHealthy();
  return stream;
}

} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return enter(__func__, [&] { *stream = createStream(flags, kLeastPriority); });
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  return enter(__func__, [&] { *stream = createStream(flags, priority); });
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return enter(__func__, [&] {
    *least = kLeastPriority;
    *greatest = kGreatestPriority;
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return enter(__func__, [&] { handles<Stream>().take(stream); });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return enter(__func__, [&] { uncaptured(stream).synchronize(); });
}

CUresult cuStreamQuery(CUstream stream) {
  return enter(__func__, [&] {
    Mark mark = uncaptured(stream).mark();
    // An idle worker needs a moment to come to the mark.
    for (int i = 0; i < 100 && !mark.ticket->done; ++i)
      std::this_thread::yield();
    requireDone(*mark.ticket);
    Timeline::get().joinHost(mark.ticket->clock);
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return enter(__func__, [&] {
    Stream &found = streamOf(stream);
    Event &awaited = handles<Event>().find(event);
    require(flags == CU_EVENT_WAIT_DEFAULT, CUDA_ERROR_INVALID_VALUE, "unknown flags");
    if (awaited.captured) {
      std::shared_ptr<Capture> capture = awaited.captured->capture.lock();
      require(capture != nullptr, CUDA_ERROR_CAPTURED_EVENT,
              "the event was recorded in a capture that has ended");
      capture->wait(found, *awaited.captured);
      return;
    }
    if (!awaited.mark)
      return;
    require(!found.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            "a captured stream waits for an event from outside of the capture");
    found.wait(*awaited.mark);
  });
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return enter(__func__, [&] {
    currentDevice();
    require((flags & ~CU_EVENT_DISABLE_TIMING) == 0, CUDA_ERROR_INVALID_VALUE, "unknown flags");
    *event = handles<Event>().make<CUevent>(flags == 0);
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return enter(__func__, [&] { handles<Event>().take(event); });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return enter(__func__, [&] {
    Stream &found = streamOf(stream);
    Event &recorded = handles<Event>().find(event);
    if (found.capture) {
      recorded.captured = found.capture->mark(found);
      recorded.mark.reset();
      return;
    }
    recorded.captured.reset();
    recorded.mark = found.mark();
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return enter(__func__, [&] {
    joinEvent(event, [](const Ticket &ticket) { Timeline::get().await(ticket); });
  });
}

CUresult cuEventQuery(CUevent event) {
  return enter(__func__, [&] { joinEvent(event, requireDone); });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return enter(__func__, [&] {
    Event &first = handles<Event>().find(start), &last = handles<Event>().find(end);
    require(first.mark && last.mark && first.hasTiming && last.hasTiming, CUDA_ERROR_INVALID_HANDLE,
            "an event wasn't recorded, or was made without timing");
    requireDone(*first.mark->ticket);
    requireDone(*last.mark->ticket);
    std::chrono::duration<float, std::milli> elapsed =
        last.mark->ticket->at - first.mark->ticket->at;
    *milliseconds = elapsed.count();
  });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  return enter(__func__, [&] { Capture::begin(streamOf(stream)); });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return enter(__func__, [&] {
    Stream &found = streamOf(stream);
    require(found.capture != nullptr, CUDA_ERROR_INVALID_VALUE, "the stream isn't being captured");
    *graph = handles<CapturedGraph>().make<CUgraph>(&found.device(), found.capture->end(found));
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  return enter(__func__, [&] {
    require((flags & ~CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) == 0, CUDA_ERROR_INVALID_VALUE,
            "unknown flags");
    CapturedGraph &found = handles<CapturedGraph>().find(graph);
    require(!found.graph.hasPriorities || flags != 0, CUDA_ERROR_INVALID_VALUE,
            "the priorities of captured streams would be lost");
    *exec = handles<ExecutableGraph>().make<CUgraphExec>(*found.device, found.graph);
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return enter(__func__, [&] { handles<ExecutableGraph>().find(exec).launch(uncaptured(stream)); });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return enter(__func__, [&] { handles<CapturedGraph>().take(graph); });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return enter(__func__, [&] { handles<ExecutableGraph>().take(exec); });
}

} // namespace dtc::cuda
