// What refusals say where another export of the module would do.
#pragma once

namespace dtc::import {

/// How to export a module so that it can be trained.
inline constexpr const char *kExport = "export with torch.onnx.export(model.eval(), (input,), "
                                       "\"model.onnx\", dynamo=True, optimize=False)";

} // namespace dtc::import
