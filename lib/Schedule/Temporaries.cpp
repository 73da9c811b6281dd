#include "dtc/Schedule/Temporaries.h"

#include "Homes.h"

using namespace mlir;

namespace dtc::schedule {

FailureOr<int64_t> temporaryBytes(ModuleOp module) {
  auto arena = module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kArenaBytes);
  if (!arena)
    return module.emitError("memory is not planned");
  FailureOr<HomeTable> homes = HomeTable::build(module);
  if (failed(homes))
    return failure();
  return arena.getInt() - static_cast<int64_t>(homes->size());
}

} // namespace dtc::schedule
