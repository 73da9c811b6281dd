#include "Emulator/Device/Capture.h"

#include "Emulator/Device/Device.h"
#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

void Capture::begin(Stream &origin) {
  if (origin.capture)
    throw Fault(cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "the stream is being captured already");
  origin.capture = std::make_shared<Capture>();
  origin.capture->lanes.push_back({&origin, {}});
}

Capture::Lane &Capture::laneOf(Stream &stream) {
  for (Lane &lane : lanes)
    if (lane.stream == &stream)
      return lane;
  lanes.push_back({&stream, {}});
  return lanes.back();
}

void Capture::add(Stream &stream, Operation operation) {
  Lane &lane = laneOf(stream);
  graph.nodes.push_back(
      {std::move(operation), static_cast<size_t>(&lane - lanes.data()), std::move(lane.after)});
  lane.after = {graph.nodes.size() - 1};
}

CaptureMark Capture::mark(Stream &stream) { return {weak_from_this(), laneOf(stream).after}; }

void Capture::wait(Stream &stream, const CaptureMark &mark) {
  if (stream.capture && stream.capture.get() != this)
    throw Fault(cuda::CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                "a captured stream waits for an event of another capture");
  stream.capture = shared_from_this();
  std::vector<size_t> &after = laneOf(stream).after;
  for (size_t node : mark.after)
    if (std::find(after.begin(), after.end(), node) == after.end())
      after.push_back(node);
}

void Capture::requireJoined() const {
  std::vector<bool> reached(graph.nodes.size(), false);
  for (size_t node : lanes.front().after)
    reached[node] = true;
  for (size_t node = graph.nodes.size(); node-- > 0;)
    if (reached[node])
      for (size_t before : graph.nodes[node].after)
        reached[before] = true;
  for (size_t node = 0; node < graph.nodes.size(); ++node)
    if (!reached[node])
      throw Fault(cuda::CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                  "capture ends, but nothing on the stream where it began waits for '",
                  graph.nodes[node].operation.name, "' of another stream");
}

Graph Capture::end(Stream &origin) {
  if (lanes.front().stream != &origin)
    throw Fault(cuda::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                "capture ends on a stream where it didn't begin");
  std::shared_ptr<Capture> keep = shared_from_this();
  for (Lane &lane : lanes) {
    lane.stream->capture = nullptr;
    graph.hasPriorities |= lane.stream->priority() != origin.priority();
  }
  requireJoined();
  graph.lanes = lanes.size();
  return std::move(graph);
}

ExecutableGraph::ExecutableGraph(Device &device, Graph graph) : graph(std::move(graph)) {
  for (size_t lane = 1; lane < this->graph.lanes; ++lane)
    streams.push_back(std::make_unique<Stream>(device));
}

void ExecutableGraph::launch(Stream &stream) {
  auto streamOf = [&](size_t lane) -> Stream & { return lane == 0 ? stream : *streams[lane - 1]; };
  if (last.ticket)
    stream.wait(last);
  Mark start = stream.mark();
  for (auto &other : streams)
    other->wait(start);
  std::vector<bool> isAwaited(graph.nodes.size(), false);
  for (const Graph::Node &node : graph.nodes)
    for (size_t before : node.after)
      if (graph.nodes[before].lane != node.lane)
        isAwaited[before] = true;
  std::vector<Mark> marks(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Graph::Node &node = graph.nodes[i];
    Stream &target = streamOf(node.lane);
    for (size_t before : node.after)
      if (graph.nodes[before].lane != node.lane)
        target.wait(marks[before]);
    target.enqueue(node.operation);
    if (isAwaited[i])
      marks[i] = target.mark();
  }
  for (auto &other : streams)
    stream.wait(other->mark());
  last = stream.mark();
}

} // namespace dtc::emulator
