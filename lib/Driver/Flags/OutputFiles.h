// What a command may write: nothing that it reads, and where there is a folder for it.
#pragma once

#include "dtc/Driver/Options.h"

#include "dtc-rt/Files/OutputConflicts.h"
#include "dtc/Weights/WeightStore.h"

namespace dtc::driver {

/// Of the flags alone, before anything is read. `inputs` are files that the options don't name.
rt::Status checkOutputs(const Options &options, std::vector<rt::NamedFile> inputs = {});

/// The same for files that the model names.
rt::Status checkOutputs(const Options &options, const WeightStore &weights);

} // namespace dtc::driver
