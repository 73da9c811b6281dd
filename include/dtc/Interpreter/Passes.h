#pragma once

namespace dtc::interpreter {

/// `dtc-interpret`: evaluates a function on drawn inputs and prints its results.
void registerInterpreterPasses();

} // namespace dtc::interpreter
