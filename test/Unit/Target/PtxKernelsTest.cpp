// A kernel's text alone, whatever stood around it.
#include "PtxKernels.h"

#include <gtest/gtest.h>

using namespace dtc::cuda;

namespace {

const std::string kHeader = ".version 7.0\n.target sm_80\n.address_size 64\n";

std::string kernel(const std::string &name, int number) {
  std::string label = "$L__BB" + std::to_string(number) + "_1";
  return "\t// .globl\t" + name + "\n.visible .entry " + name + "(\n\t.param .u64 " + name +
         "_param_0\n)\n{\n\t.shared .align 16 .b8 " + name +
         "_shared0[32];\n\tadd.f32 %f1, %f2;\n" + label + ":\n\tld.shared.f32 %f1, [" + name +
         "_shared0+4];\n\tbra " + label + ";\n}\n";
}

std::vector<PtxKernel> split(const std::string &ptx) {
  auto kernels = splitPtx(ptx);
  EXPECT_TRUE(bool(kernels)) << llvm::toString(kernels.takeError());
  return kernels ? *kernels : std::vector<PtxKernel>();
}

TEST(PtxKernelsTest, TextsTellNeitherNamesNorPlaces) {
  auto kernels = split("// A comment\n" + kHeader + "\n" + kernel("rows_1", 0) + "\n\n" +
                       kernel("rows_3", 3) + kernel("rows_10", 1));
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].name, "rows_1");
  EXPECT_EQ(kernels[1].name, "rows_3");
  EXPECT_EQ(kernels[2].name, "rows_10"); // it is longer, and so is its text
  EXPECT_EQ(kernels[2].ptx.find("rows"), std::string::npos);
  EXPECT_EQ(kernels[0].ptx, kernels[1].ptx);
  EXPECT_EQ(kernels[0].ptx.find("rows"), std::string::npos);
  EXPECT_TRUE(llvm::StringRef(kernels[0].ptx).starts_with(kHeader));
}

TEST(PtxKernelsTest, AnotherInstructionIsAnotherText) {
  std::string other = kernel("rows_1", 0);
  other.replace(other.find("add.f32"), 3, "mul");
  auto kernels = split(kHeader + kernel("rows_0", 0) + other);
  EXPECT_NE(kernels[0].ptx, kernels[1].ptx);
}

TEST(PtxKernelsTest, AnInstructionMayBeCalledAsAKernel) {
  auto kernels = split(kHeader + kernel("add", 0));
  EXPECT_NE(kernels[0].ptx.find("\tadd.f32 "), std::string::npos);
}

TEST(PtxKernelsTest, DeclarationsGoWithTheKernelsThatNameThem) {
  std::string kept = kernel("rows_9", 0);
  kept.insert(kept.find("\tadd"), "\tmov.b64 %rd1, rows_9_kept;\n");
  auto kernels = split(kHeader + ".extern .shared .align 16 .b8 rows_9_kept[];\n" +
                       ".global .align 4 .u32 table[2] = {1, 2};\n" + kernel("rows_0", 0) + kept);
  EXPECT_EQ(kernels[0].ptx.find("_kept"), std::string::npos);
  EXPECT_NE(kernels[1].ptx.find(".b8 " + standInOf("rows_9").str() + "_kept[];\n"),
            std::string::npos);
  EXPECT_EQ(kernels[1].ptx.find("table"), std::string::npos);
}

TEST(PtxKernelsTest, NamesThatNothingCanStandForStay) {
  for (const std::string &name : {std::string("k0"), std::string(64, 'k')}) {
    auto kernels = split(kHeader + kernel(name, 0));
    EXPECT_EQ(standInOf(name), name);
    EXPECT_NE(kernels[0].ptx.find(".entry " + name + "("), std::string::npos);
  }
}

TEST(PtxKernelsTest, WhatIsNoKernelIsRefused) {
  auto kernels = splitPtx(kHeader + ".func helper()\n{\n}\n");
  ASSERT_FALSE(bool(kernels));
  EXPECT_NE(llvm::toString(kernels.takeError()).find(".func helper()"), std::string::npos);
}

TEST(PtxKernelsTest, NoCubinIsSaid) {
  std::vector<char> bytes = {'n', 'o', 'n', 'e'};
  llvm::Error error = nameKernel(bytes, "rows_0");
  EXPECT_TRUE(bool(error));
  llvm::consumeError(std::move(error));
}

} // namespace
