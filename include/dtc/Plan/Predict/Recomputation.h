// Recomputation: what a block's backward pass reads isn't kept but computed again.
#pragma once

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Predict/RankExecution.h"

namespace dtc::plan {

/// Rewrites an execution so that the blocks named in `kinds` are computed again right before their
/// backward pass. `Full` computes all of a block again, and only what comes from outside of it is
/// kept. `Selective` computes again what attention keeps inside: its scores and probabilities. It
/// does nothing where a fused attention keeps none. (Korthikanti et al., Reducing Activation
/// Recomputation in Large Transformer Models, MLSys 2023, section 5.) For a block y = g(f(x)):
///
///   none   f g ... g' f'           keeps x, f(x) and what g keeps
///   full   f g ... f g g' f'       keeps x
///
/// What no gradient reads isn't computed again: g's last product, say. PyTorch's checkpoints are
/// functions of Python, which run as a whole. Our programs are made by
/// dtc/Partition/Recompute.h.
void addRecomputation(RankExecution &execution, const Problem &problem,
                      const std::vector<Block> &blocks, const std::vector<BlockRecompute> &kinds,
                      const Software &software);

} // namespace dtc::plan
