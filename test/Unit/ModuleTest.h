// A fixture with a context of some dialects that keeps what it is told of errors.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

namespace dtc::test {

template <typename... Dialects> class ModuleTest : public ::testing::Test {
protected:
  ModuleTest() : context(registry()) {
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
      errors += diagnostic.str() + "\n";
      return mlir::success();
    });
  }

  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    registry.insert<Dialects...>();
    graph::registerElementwiseModels(registry);
    return registry;
  }

  mlir::MLIRContext context;
  std::string errors;
};

} // namespace dtc::test
