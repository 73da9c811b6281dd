#include "dtc/Lower/Pieces.h"

#include "../ModuleTest.h"

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace {

/// Rank 0 sends two halves of eight elements, the first to rank 1; it has both.
class PiecesTest : public dtc::test::ModuleTest<func::FuncDialect, dtc::graph::GraphDialect,
                                                dtc::dist::DistDialect, dtc::exec::ExecDialect> {
protected:
  LogicalResult check(const std::string &sent, const std::string &received) {
    std::string text = R"mlir(
module {
  module @rank0 attributes {exec.ranks = array<i32: 0>} {
    func.func @send(%a: tensor<4xf32> {dist.message = "m", dist.begins = [array<i64: 0>]},
                    %b: tensor<4xf32> {dist.message = "m", dist.begins = [array<i64: 4>]}) {
)mlir" + sent + R"mlir(
      return
    }
  }
  module @rank1 attributes {exec.ranks = array<i32: 1, 2>} {
    func.func @receive() -> (tensor<4xf32> {dist.message = "m", dist.begins = [array<i64: )mlir" +
                       received + R"mlir(>]}) {
      %a = exec.receive from [0, 0] channel 0 : tensor<4xf32>
      return %a : tensor<4xf32>
    }
  }
})mlir";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << errors;
    if (!module)
      return failure();
    auto roles = llvm::to_vector(module->getOps<ModuleOp>());
    return dtc::lower::checkPieces(roles);
  }
};

constexpr const char *kSend = "exec.send %a to [1] channel 0 : tensor<4xf32>\n"
                              "exec.send %b to [2] channel 0 : tensor<4xf32>\n";

TEST_F(PiecesTest, AreTheSameAtBothEnds) { EXPECT_TRUE(succeeded(check(kSend, "0, 4"))) << errors; }

TEST_F(PiecesTest, OfOtherRanksAreFound) {
  EXPECT_TRUE(failed(check(kSend, "4, 0")));
  EXPECT_EQ(errors, "rank 0 sends other pieces of 'm' than rank 1 receives\n");
}

TEST_F(PiecesTest, ThatAreNeverSentAreFound) {
  EXPECT_TRUE(failed(check("exec.send %a to [1] channel 0 : tensor<4xf32>\n", "0, 4")));
  EXPECT_EQ(errors, "rank 0 sends other pieces of 'm' than rank 2 receives\n");
}

TEST_F(PiecesTest, OfSomeRanksAloneAreRefused) {
  EXPECT_TRUE(failed(check(kSend, "0")));
  EXPECT_EQ(errors, "'exec.receive' op has a piece of a message, but not of each rank\n");
}

} // namespace
