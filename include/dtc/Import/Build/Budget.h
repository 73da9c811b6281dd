// What importing one file may use.
//
// A few kilobytes can ask for any amount of work. Functions that call each other twice, 28 deep,
// are 2^28 nodes. A pool over 30,000 x 30,000 elements is as many slices. Every loop whose length a
// file decides charges the one budget of its import, before it does the work. What no real model
// comes near is refused, with one line that says which node asked for it.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace dtc::import {

class Budget {
public:
  /// Elements of one tensor. Sizes below don't overflow when they are multiplied by a batch.
  static constexpr int64_t kMostElements = int64_t(1) << 50;
  /// Dimensions of one tensor.
  static constexpr int64_t kMostDims = 64;
  /// Of a file's graph and functions, and of their nodes.
  static constexpr int64_t kMostEntries = int64_t(1) << 22;
  /// Calls of functions within one another.
  static constexpr int kMostDepth = 32;

  // Each takes from what is left, and returns an error's text where there isn't as much.

  /// Nodes of the file once its functions are inlined, and operations that one node becomes.
  [[nodiscard]] llvm::StringRef takeNodes(int64_t count) {
    return take(nodes, count, "needs too many nodes; no model has more than 262144");
  }
  /// Elements of constants that are computed while importing.
  [[nodiscard]] llvm::StringRef fold(int64_t count) {
    return take(elements, count, "computes too many elements of constants while importing");
  }
  /// Bytes of memory that are held beside the file's own.
  [[nodiscard]] llvm::StringRef hold(int64_t count) {
    return take(bytes, count, "needs too much memory while importing");
  }
  void release(int64_t count) { bytes += count; }

private:
  static llvm::StringRef take(int64_t &left, int64_t count, llvm::StringRef error) {
    if (count > left)
      return error;
    left -= count;
    return {};
  }

  int64_t nodes = int64_t(1) << 18;
  int64_t elements = int64_t(1) << 27;
  int64_t bytes = int64_t(1) << 29;
};

} // namespace dtc::import
