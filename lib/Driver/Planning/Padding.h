// Whether it pays to pad what a plan's tensor parallelism doesn't divide.
//
// Eight ranks can share 16 heads, but not 12. Exact zeros make 16 of them
// (Training/PadDimension.h), which all ranks then compute. Prices say what is faster, so the model
// is planned both ways. Where the search is free, each `tp` that doesn't divide heads or features
// is tried so, pinned:
//
//     tp=8 of 12 heads    the plan as the model is, and the plan of tp=8 with 16 heads
//     no tp given         the plan as the model is, and those with tp=8 and tp=16
#pragma once

#include "../Phases.h"

namespace dtc::driver {

/// Requests for padded plans that are worth a comparison with that of the step as it is, each with
/// its `tp` pinned. None where everything divides, for other programs, and for plan files.
std::vector<Request> withPadding(const Request &request, Trained &step);

/// Whether padding for a `tp` that nobody asked for may gain much over a plan. It computes no less,
/// so it doesn't over one that repeats no work and hardly waits.
bool mayGain(const Planned &known);

/// Of all parameters, as the graph sees them. They tell whether anything was padded.
std::vector<mlir::Type> shapesOf(Trained &step);

/// Where parameters have more elements than their files.
plan::Dimensions paddedIn(Trained &step);

/// What a plan file has padded and the step hasn't: the parameter is another's, or it isn't exact
/// here. Empty: nothing.
std::string wrongPadding(const Request &request, Trained &step);

/// Tells a padded plan as one whose `tp` was found, where the user left it open. `other`: the best
/// one beside it, if any.
void tellAsAsked(const Request &request, const Planned *other, Planned &padded);

} // namespace dtc::driver
