// The archive that torch.export.save writes, read without PyTorch.
//
//   NAME/archive_format                      "pt2"
//   NAME/byteorder                           "little"
//   NAME/models/MODEL.json                   operators, names of weights
//   (torch/_export/serde/schema.py) NAME/data/weights/MODEL_weights_config.json,
//   NAME/data/weights/weight_0, ... NAME/data/constants/MODEL_constants_config.json,
//   NAME/data/constants/tensor_0, ...
//
// Bytes of tensors are stored raw, and are used where they lie in the mapped file. Nothing here is
// a pickle: the example inputs, which are one, aren't read.
#pragma once

#include "AtenGraph.h"

#include "dtc/Import/Build/Budget.h"

#include "mlir/IR/Diagnostics.h"

namespace dtc::import {

/// Reads and checks the archive. Errors are diagnostics at `file`. `training`: it must say all that
/// PyTorch trains with.
llvm::FailureOr<AtenGraph> readExportedProgram(const std::string &path, bool training,
                                               mlir::Location file, Budget &budget);

} // namespace dtc::import
