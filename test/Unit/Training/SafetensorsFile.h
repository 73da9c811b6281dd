// The arrays of a small safetensors file.
#pragma once

#include "dtc/Interpreter/Tensor.h"

#include <map>
#include <string>

namespace dtc::test {

using Arrays = std::map<std::string, interpreter::Tensor>;

/// Empty, with a failure of the current test, where the file can't be read.
Arrays readSafetensors(mlir::MLIRContext &context, const std::string &path);

/// Little-endian elements of `dtype` ("F32", "I64", ...) as a tensor of `type`.
interpreter::Tensor tensorFromBytes(mlir::RankedTensorType type, llvm::StringRef dtype,
                                    const char *bytes);

} // namespace dtc::test
