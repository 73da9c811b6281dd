// A kernel's text, by whatever name it goes.
#include "PtxKernels.h"

#include <gtest/gtest.h>

using namespace dtc::cuda;

namespace {

const std::string kHeader = ".version 7.0\n.target sm_80\n.address_size 64\n";

/// As it is compiled, and as it is called.
std::string ptxOf(const std::string &name) {
  return kHeader + "\t// .globl\t" + name + "\n.visible .entry " + name + "(\n\t.param .u64 " +
         name + "_param_0\n)\n{\n\t.shared .align 16 .b8 " + name +
         "_shared0[32];\n\tadd.f32 %f1, %f2;\n$L__BB0_1:\n\tld.shared.f32 %f1, [" + name +
         "_shared0+4];\n\tbra $L__BB0_1;\n}\n";
}

PtxKernel kernel(const std::string &name) { return {name, ptxOf(kStandIn.str())}; }

TEST(PtxKernelsTest, TextsDontTellNames) {
  EXPECT_EQ(kernel("rows_1").ptx, kernel("rows_3").ptx);
  EXPECT_EQ(kernel("rows_1").ptx, ptxOf("dtc_ke"));
  EXPECT_EQ(kernel("rows_10").ptx, ptxOf("dtc_ker")); // it is longer, and so is its text
}

TEST(PtxKernelsTest, NamesThatNothingCanStandForStay) {
  for (const std::string &name : {std::string("k0"), std::string(64, 'k')}) {
    EXPECT_EQ(standInOf(name), name);
    EXPECT_EQ(kernel(name).ptx, ptxOf(name));
  }
}

TEST(PtxKernelsTest, OneProgramHasAllByTheirNames) {
  std::string ptx = joinPtx({kernel("rows_1"), kernel("add"), kernel("rows_10")});
  EXPECT_EQ(ptx, ptxOf("rows_1") + ptxOf("add").substr(kHeader.size()) +
                     ptxOf("rows_10").substr(kHeader.size()));
}

TEST(PtxKernelsTest, NoCubinIsSaid) {
  std::vector<char> bytes = {'n', 'o', 'n', 'e'};
  llvm::Error error = nameKernel(bytes, "rows_0");
  EXPECT_TRUE(bool(error));
  llvm::consumeError(std::move(error));
}

} // namespace
