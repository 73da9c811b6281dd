// Values that share their elements with another one: which operators make them, and how what is
// written into such a part comes into the whole.
//
//   part = x.select(1, -1)              part = x.select(1, -1)
//   part.fill_(0)            becomes    zero = part.fill(0)
//   return x                            whole = x.select_scatter(zero, 1, -1)
//                                       return whole
#pragma once

#include "AtenGraph.h"

#include <optional>
#include <string>

namespace dtc::import {

/// "add_" of aten.add_.Tensor.
llvm::StringRef baseOf(llvm::StringRef op);

enum class Sharing : uint8_t {
  Never,
  /// In PyTorch that depends on strides, which aren't known here: reshape, contiguous, to.
  Perhaps,
  Always
};
/// Whether the results of an operator share elements with its first argument.
Sharing sharingOf(llvm::StringRef op);
/// The value with which a result shares its elements: the first argument, or the one in the
/// result's place where that is a list. Null where it shares none.
const ValueName *sharedBy(const AtenNode &node, size_t result);

/// One result of an operator that shares its elements with a value.
struct View {
  std::string of; ///< the value, as the program calls it
  AtenNode node;  ///< with the program's names
  size_t result = 0;
};

/// The node that gives `whole` with `part` where the view's elements are; nothing where that
/// isn't known. Its result is still to be named.
std::optional<AtenNode> putBack(const View &view, const std::string &whole,
                                const std::string &part);

} // namespace dtc::import
