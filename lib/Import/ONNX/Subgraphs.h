// Graphs inside of nodes: the branches of If, the bodies of Loop and Scan.
//
// They are converted where they stand, with what decides them known while importing. Of an If it is
// the branch that is taken, of a Loop as many copies of its body as it makes rounds.
#pragma once

#include "GraphBuilder.h"

namespace dtc::import {

/// The names that a node reads: its inputs, and what its graphs take from around them.
std::vector<std::string> readNames(const onnx::NodeProto &node);

/// Converts the nodes of `graph`, whose inputs are `inputs`, and returns its outputs. Names inside
/// of it end with it.
llvm::FailureOr<std::vector<Tensor>>
convertGraph(NodeConverter &node, const onnx::GraphProto &graph, llvm::ArrayRef<Tensor> inputs);

} // namespace dtc::import
