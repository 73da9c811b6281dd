// The functions that send and receive, one for each message that a stage chunk has.
//
// Take a chunk whose @forward reads the inbox "a" and makes the outbox "b". It runs on <dp=2>
// between stages on the ranks 0, 1 and 4, 5:
//
//   func @receive_activations() -> inbox "a"    exec.receive from [0, 1]
//   func @forward(inbox "a") -> outbox "b"      reads "a" behind exec.wait
//   func @send_activations(outbox "b")          exec.send to [4, 5]
//
// A value that another mesh lays out otherwise comes in pieces (dtc/Stages/Stages.h), which name
// their peers themselves. Then there is a send for each turn of receivers.
//
// They have queues of their own. All messages between two ranks share a channel: they are in one
// order, which is that of the steps (dtc/Schedule/Messages.h).
#pragma once

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Schedule/Messages.h"

#include <map>

namespace dtc::lower {

class MessageFunctions {
public:
  /// `functions`: those that run for each microbatch.
  MessageFunctions(mlir::ModuleOp module, const schedule::Schedule &schedule,
                   llvm::ArrayRef<mlir::func::FuncOp> functions);

  /// Has functions wait for their inboxes; fails where they have messages that the schedule
  /// lacks.
  mlir::LogicalResult prepare();
  /// The function of one end of a message; null for a message of nothing.
  mlir::func::FuncOp functionOf(const schedule::Message &message, bool sends);

private:
  mlir::func::FuncOp build(const schedule::Message &message, bool sends);
  /// What the functions of a stage send or receive in a pass.
  struct Ends {
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    llvm::SmallVector<mlir::Type> types;
  };
  /// The ranks at the other end of a value, one list or several.
  static llvm::SmallVector<llvm::ArrayRef<int32_t>> peersOf(mlir::DictionaryAttr attributes);
  Ends endsOf(int64_t chunk, bool isForward, bool sends);
  llvm::SmallVector<int32_t> ranksOf(int64_t stage) const;

  mlir::ModuleOp module;
  const schedule::Schedule &schedule;
  llvm::ArrayRef<mlir::func::FuncOp> functions;
  mlir::ArrayAttr devices; ///< by stage
  std::map<std::tuple<int64_t, bool, bool>, mlir::func::FuncOp> known;
};

} // namespace dtc::lower
