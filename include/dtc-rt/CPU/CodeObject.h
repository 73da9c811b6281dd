// The artifact's shared object of kernels, loaded from memory.
#pragma once

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Status.h"

#include <memory>
#include <span>
#include <string>

namespace dtc::rt {

class CodeObject {
public:
  static Result<CodeObject> load(std::span<const char> bytes);
  /// Null when the object has no such symbol.
  KernelFunction find(const std::string &symbol) const;

private:
  std::shared_ptr<void> handle;
};

} // namespace dtc::rt
