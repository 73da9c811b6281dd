// The parts of the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace dtc::python {

void definePlan(nanobind::module_ &module);
void defineProgram(nanobind::module_ &module);

} // namespace dtc::python
