// TorchScript archives (.pt), which torch.jit.save writes.
//
//   NAME/code/__torch__.py       the methods, in TorchScript
//   NAME/data.pkl, constants.pkl the modules with their attributes
//   NAME/data/0, ...             bytes of tensors
//
// The program dtc-torchscript (tools/dtc-torchscript) reads them with LibTorch, and writes two
// lines of JSON. One is the program, as archives of torch.export.save have it. The other says where
// each tensor's bytes lie in this archive. What it writes is checked as a file is.
#pragma once

#include "AtenGraph.h"

#include "dtc/Import/Build/Budget.h"

#include "dtc-io/ZipFile.h"

#include "mlir/IR/Diagnostics.h"

namespace dtc::import {

/// The folder of the archive that holds a TorchScript module; nothing where there is none.
std::optional<std::string> torchScriptRoot(const io::ZipFile &zip);

/// Has the module recorded with the shapes that are asked for. Errors are diagnostics at `file`.
llvm::FailureOr<AtenGraph> readTorchScript(const io::ZipFile &zip, const std::string &root,
                                           const ImportOptions &options, mlir::Location file,
                                           Budget &budget);

} // namespace dtc::import
