// Ops of the `dist` dialect between pipeline stages.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

/// Attributes of what crosses between stages with meshes of their own (dtc/Stages/Stages.h), on
/// arguments and results of functions.
namespace dtc::dist::crossing {

/// The name of the value, the same on both ends.
inline constexpr llvm::StringLiteral kMessage = "dist.message";
/// Into how many pieces each dimension of a shard is cut, before this is done.
inline constexpr llvm::StringLiteral kPieces = "dist.pieces";
/// By piece and position on the mesh: which element of the whole the piece begins with, row-major.
inline constexpr llvm::StringLiteral kBegins = "dist.begins";
/// Of a result: lists of world ranks, by the sender's position; -1 where nothing is sent. Before
/// shards are cut, as many lists for each piece, one piece after another.
inline constexpr llvm::StringLiteral kReceivers = "dist.receivers";
/// Of an argument: a list of world ranks for each piece, by the receiver's position.
inline constexpr llvm::StringLiteral kSenders = "dist.senders";

} // namespace dtc::dist::crossing

#define GET_OP_CLASSES
#include "dtc/Dialect/Dist/StageOps.h.inc"
