// What the library can't do is found again after planning memory has failed at it.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Target/CPU/CpuTarget.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc;

namespace {

bool lacks(const std::string &element) {
  std::string tensor = "tensor<2x2x" + element + ">";
  std::string text = "func.func @f(%a: " + tensor + ", %b: " + tensor + ") -> " + tensor +
                     " {\n  %0 = exec.matmul %a, %b batch [] mnk [2, 2, 2] strides [2, 1], "
                     "[2, 1] -> [2, 1] offsets [0, 0] : " +
                     tensor + ", " + tensor + " -> " + tensor + "\n  return %0 : " + tensor +
                     "\n}\n";
  MLIRContext context;
  context.loadDialect<exec::ExecDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  return module && target::lacksLibraryCall(*module, cpu::cpuTarget(), 1);
}

TEST(LibrarySupport, FindsCallsThatTheLibraryLacks) {
  EXPECT_FALSE(lacks("f32"));
  EXPECT_TRUE(lacks("f64"));
}

} // namespace
