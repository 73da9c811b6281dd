// What is said where a library is missing, or one of its functions.
#include "Libraries.h"
#include "SharedLibrary.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::cuda;

namespace {

constexpr const char *kFolder = "DTC_CUDA_LIBRARY_PATH";

class CudaLibraries : public testing::Test {
protected:
  void SetUp() override {
    if (const char *value = std::getenv(kFolder))
      before = value;
  }
  void TearDown() override {
    if (before)
      ::setenv(kFolder, before->c_str(), 1);
    else
      ::unsetenv(kFolder);
  }

  std::optional<std::string> before;
};

void expectParts(const Status &status, std::initializer_list<const char *> parts) {
  EXPECT_EQ(status.category(), ErrorCategory::NoFit);
  for (const char *part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

} // namespace

TEST_F(CudaLibraries, WhatIsMissingIsNamedWithTheCommandThatInstallsIt) {
  constexpr const char *kFiles[] = {"libdtc-no-such-library.so.1"};
  auto library = SharedLibrary::open({"the library", kFiles, "install it with `command`"});
  ASSERT_FALSE(library);
  expectParts(library.status(),
              {"the library", "libdtc-no-such-library.so.1", "install it with `command`", kFolder});
}

TEST_F(CudaLibraries, FoldersThatLackItAreSaid) {
  constexpr const char *kFiles[] = {"libdtc-no-such-library.so.1"};
  ::setenv(kFolder, "/nowhere:/no/folder", 1);
  auto library = SharedLibrary::open({"the library", kFiles, "install it with `command`"});
  ASSERT_FALSE(library);
  expectParts(library.status(), {"add its folder to DTC_CUDA_LIBRARY_PATH: /nowhere:/no/folder"});
}

TEST_F(CudaLibraries, AreFoundInAnyOfSeveralFolders) {
  ::setenv(kFolder, (std::string("/nowhere:") + DTC_INCOMPLETE_DRIVER).c_str(), 1);
  auto driver = Driver::load();
  ASSERT_FALSE(driver);
  expectParts(driver.status(), {DTC_INCOMPLETE_DRIVER, "cuGetErrorName"});
}

TEST_F(CudaLibraries, AMissingFunctionIsNamed) {
  ::setenv(kFolder, DTC_INCOMPLETE_DRIVER, 1);
  auto driver = Driver::load();
  ASSERT_FALSE(driver);
  expectParts(driver.status(), {DTC_INCOMPLETE_DRIVER, "cuGetErrorName", "apt install"});
}

TEST_F(CudaLibraries, AFileThatIsNoLibraryIsSaid) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "dtc-no-library";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "libcublasLt.so.13") << "text";
  ::setenv(kFolder, folder.c_str(), 1);
  auto library = CublasLt::load();
  ASSERT_FALSE(library);
  expectParts(library.status(), {"cuBLASLt", "libcublasLt.so.13: ", "pip install"});
  std::filesystem::remove_all(folder);
}
