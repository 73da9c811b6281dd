// Stream capture, and the graph that it makes.
//
// Operations put on a captured stream become nodes. A stream joins the capture when it waits for an
// event that was recorded on a stream of the capture. It must be joined again by the stream where
// the capture began:
//
//     begin(s0)   s0: A   record e   s1 waits e   s1: B   record f   s0: C   s0 waits f   s0: D
//     end(s0) nodes  A, B after A, C after A, D after C and B;  lanes  s0: A C D   s1: B
//
// A launch puts the first lane onto the launching stream, and every other lane onto a stream that
// the executable graph owns. So clocks and timing treat a graph as they treat streams.
#pragma once

#include "Emulator/Device/Stream.h"

namespace dtc::emulator {

struct Graph {
  struct Node {
    Operation operation;
    size_t lane;
    std::vector<size_t> after; // nodes; of other lanes, or the one before in its own
  };
  std::vector<Node> nodes; // in the order of capture
  size_t lanes = 1;
  bool hasPriorities = false; // of streams that differ
};

/// A moment of a capture: what an event holds that was recorded on a captured stream.
struct CaptureMark {
  std::weak_ptr<Capture> capture;
  std::vector<size_t> after;
};

class Capture : public std::enable_shared_from_this<Capture> {
public:
  static void begin(Stream &origin);

  /// Ends the capture that began on `origin`. Throws where a stream wasn't joined.
  Graph end(Stream &origin);

  void add(Stream &stream, Operation operation);
  CaptureMark mark(Stream &stream);

  /// `stream` waits for a moment of this capture, and joins the capture if it isn't part of it.
  void wait(Stream &stream, const CaptureMark &mark);

private:
  struct Lane {
    Stream *stream;
    std::vector<size_t> after; // of the next node
  };
  Lane &laneOf(Stream &stream);
  void requireJoined() const;

  Graph graph;
  std::vector<Lane> lanes; // the first is the origin's
};

class ExecutableGraph {
public:
  static constexpr const char *kWhat = "executable graph";

  ExecutableGraph(Device &device, Graph graph);

  void launch(Stream &stream);

private:
  Graph graph;
  std::vector<std::unique_ptr<Stream>> streams; // of all lanes but the first
  Mark last; // the end of the last launch: launches of one graph don't overlap
};

} // namespace dtc::emulator
