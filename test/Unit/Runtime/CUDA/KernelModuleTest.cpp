// Which file of an artifact each kernel is loaded from. The emulated GPU has no machine code: what
// stands for it here is PTX behind the first bytes of an ELF file.
#include "KernelModule.h"

#include "../TestGpu.h"

#include <gtest/gtest.h>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::cuda;

namespace {

const std::string kElf = "\x7f"
                         "ELF";

std::string ptxOf(std::initializer_list<const char *> kernels) {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (std::string kernel : kernels)
    text += ".visible .entry " + kernel + "(.param .u64 " + kernel + "_param_0)\n{\n\tret;\n}\n";
  return text;
}

Driver real;
std::vector<std::string> loaded; ///< kinds of what was loaded

/// Takes machine code, too.
CUresult loadModule(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                    void **values) {
  const auto *text = static_cast<const char *>(image);
  bool isElf = std::string_view(text).starts_with(kElf);
  loaded.push_back(isElf ? "cubin" : "ptx");
  return real.cuModuleLoadDataEx(module, text + (isElf ? kElf.size() : 0), count, options, values);
}

class KernelModuleTest : public testing::Test {
protected:
  void SetUp() override {
    if (std::string why = test::whyNoGpus(); !why.empty())
      GTEST_SKIP() << why;
    auto driver = Driver::load();
    ASSERT_TRUE(driver) << driver.status().message();
    real = own = *driver;
    own.cuModuleLoadDataEx = loadModule;
    auto opened = Gpu::open(own, 0);
    ASSERT_TRUE(opened) << opened.status().message();
    gpu = std::move(*opened);
    loaded.clear();
  }

  CodeFile cubin(const std::string &architecture, const char *kernel) {
    return {architecture + "/" + kernel + ".cubin", keep(kElf + ptxOf({kernel}))};
  }
  CodeFile ptx(std::initializer_list<const char *> kernels) {
    return {"kernels.ptx", keep(ptxOf(kernels))};
  }
  std::unique_ptr<KernelModule> load(std::vector<CodeFile> given) {
    files = std::move(given);
    auto made = KernelModule::load(*gpu, files);
    EXPECT_TRUE(made) << made.status().message();
    return made ? std::move(*made) : nullptr;
  }

  Driver own;
  std::unique_ptr<Gpu> gpu;
  std::vector<CodeFile> files;

private:
  std::string_view keep(std::string text) {
    return *texts.emplace_back(std::make_unique<std::string>(std::move(text)));
  }
  std::vector<std::unique_ptr<std::string>> texts;
};

TEST_F(KernelModuleTest, CubinsAreLoadedAsTheirKernelsAreAskedFor) {
  const std::string arch = gpu->architecture();
  auto kernels = load({ptx({"one", "two"}), cubin(arch, "one"), cubin(arch, "two")});
  EXPECT_TRUE(loaded.empty());
  auto first = kernels->find("one"), again = kernels->find("one");
  ASSERT_TRUE(first && again);
  EXPECT_EQ(*first, *again);
  EXPECT_EQ(loaded, std::vector<std::string>{"cubin"});
  auto second = kernels->find("two");
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
  EXPECT_EQ(loaded, (std::vector<std::string>{"cubin", "cubin"}));
}

TEST_F(KernelModuleTest, PtxIsCompiledForOtherGpus) {
  auto kernels = load({ptx({"one", "two"}), cubin("sm_1", "one"), cubin("sm_1", "two")});
  EXPECT_EQ(loaded, std::vector<std::string>{"ptx"});
  EXPECT_TRUE(kernels->find("one") && kernels->find("two"));
  EXPECT_EQ(loaded.size(), 1u);
}

TEST_F(KernelModuleTest, PtxIsCompiledOnceWhereTheDriverTakesNoCubin) {
  own.cuModuleLoadDataEx = real.cuModuleLoadDataEx;
  const std::string arch = gpu->architecture();
  auto kernels = load({ptx({"one", "two"}), cubin(arch, "one"), cubin(arch, "two")});
  auto first = kernels->find("one"), second = kernels->find("two");
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
}

TEST_F(KernelModuleTest, WhatLacksIsSaid) {
  auto kernels = load({cubin(gpu->architecture(), "one")});
  auto other = kernels->find("two");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.status().category(), ErrorCategory::InputRefused);
  EXPECT_NE(other.status().message().find("lacks the kernel: two"), std::string::npos);
  files = {cubin("sm_1", "one")};
  auto none = KernelModule::load(*gpu, files);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().category(), ErrorCategory::NoFit);
  EXPECT_NE(none.status().message().find("--arch " + gpu->architecture()), std::string::npos);
}

TEST_F(KernelModuleTest, ACubinOfAnotherKernelIsRefused) {
  CodeFile wrong = cubin(gpu->architecture(), "one");
  wrong.name = gpu->architecture() + "/two.cubin";
  auto kernels = load({wrong, ptx({"one", "two"})});
  EXPECT_FALSE(kernels->find("two"));
}

} // namespace
