// Safetensors and .npz, also damaged and hostile ones.
#include "TestArtifact.h"

#include "dtc-rt/Files/ArrayFile.h"

#include <gtest/gtest.h>

#include <cstring>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

Result<ArrayFile> openBytes(const std::string &bytes, const char *name = "x.safetensors") {
  TemporaryFolder folder;
  writeFile(folder / name, bytes);
  return ArrayFile::open(folder / name); // mapped: outlives the name
}

void expectRefused(const std::string &bytes, const std::string &word,
                   const char *name = "x.safetensors") {
  Result<ArrayFile> file = openBytes(bytes, name);
  ASSERT_FALSE(file) << word;
  EXPECT_EQ(file.status().category(), ErrorCategory::InputRefused);
  EXPECT_NE(file.status().message().find(word), std::string::npos) << file.status().message();
  EXPECT_NE(file.status().message().find(name), std::string::npos) << file.status().message();
}

Json entry(const std::string &dtype, const Json &shape, int64_t begin, int64_t end) {
  return {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, end}}};
}

std::string npy(const std::string &header, const std::string &data) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + data;
}

} // namespace

TEST(Safetensors, ReadsArrays) {
  std::string data = bytesOf<float>({1, 2, 3, 4, 5, 6}) + bytesOf<int64_t>({7});
  Result<ArrayFile> file = openBytes(safetensorsOf(
      {{"__metadata__", {{"format", "pt"}}}, {"a", entry("F32", {2, 3}, 0, 24)},
       {"b", entry("I64", Json::array(), 24, 32)}}, data));
  ASSERT_TRUE(file) << file.status().message();
  ASSERT_EQ(file->arrays.size(), 2u);
  EXPECT_EQ(file->arrays["a"].shape, (Dims{2, 3}));
  float last;
  std::memcpy(&last, file->arrays["a"].data + 20, 4);
  EXPECT_EQ(last, 6);
  EXPECT_EQ(file->arrays["b"].dtype, DType::I64);
  EXPECT_TRUE(file->arrays["b"].shape.empty());
}

TEST(Safetensors, RefusesHostileHeaders) {
  std::string data(24, '\0');
  expectRefused("", "truncated");
  expectRefused("short", "truncated");
  expectRefused(std::string(8, '\xff') + "{}", "truncated");
  expectRefused(std::string("\x09\0\0\0\0\0\0\0{}", 10), "truncated");
  expectRefused(std::string("\x02\0\0\0\0\0\0\0[]", 10), "header");
  expectRefused(std::string("\x02\0\0\0\0\0\0\0{x", 10), "header");
  expectRefused(safetensorsOf({{"a", entry("F32", {2, 3}, 0, 28)}}, data), "a: reaches beyond");
  expectRefused(safetensorsOf({{"a", entry("F32", {2, 3}, 4, 24)}}, data), "a: bytes do not fit");
  expectRefused(safetensorsOf({{"a", entry("F32", {2, 3}, 24, 0)}}, data), "a: reaches beyond");
  expectRefused(safetensorsOf({{"a", entry("F32", {-1, 3}, 0, 24)}}, data), "a: bytes do not fit");
  expectRefused(safetensorsOf({{"a", entry("F99", {2, 3}, 0, 24)}}, data), "F99");
  expectRefused(safetensorsOf({{"a", entry("F32", "no", 0, 24)}}, data), "malformed");
  expectRefused(safetensorsOf({{"a", 3}}, data), "malformed");
  // 2^62 * 4 bytes wrap around to 0.
  int64_t huge = int64_t(1) << 62;
  expectRefused(safetensorsOf({{"a", entry("F32", {huge, 4}, 0, 0)}}, data), "bytes do not fit");
  std::string deep(100000, '[');
  expectRefused(std::string("\xa0\x86\x01\0\0\0\0\0", 8) + deep, "header");
}

TEST(Safetensors, EveryTruncationIsRefused) {
  std::string bytes = safetensorsOf({{"a", entry("F32", {2}, 0, 8)}}, bytesOf<float>({1, 2}));
  for (size_t keep = 0; keep < bytes.size(); ++keep)
    EXPECT_FALSE(openBytes(bytes.substr(0, keep))) << keep;
}

TEST(Safetensors, WriterAppearsOnCommit) {
  TemporaryFolder folder;
  std::string path = folder / "out.safetensors";
  {
    auto writer = SafetensorsWriter::create(path, {{"a", DType::F32, {2}}, {"b", DType::U8, {3}}});
    ASSERT_TRUE(writer);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
  auto writer = SafetensorsWriter::create(path, {{"a", DType::F32, {2}}, {"b", DType::U8, {3}}});
  ASSERT_TRUE(writer);
  std::memcpy(writer->data(0), bytesOf<float>({4, 5}).data(), 8);
  std::memcpy(writer->data(1), "xyz", 3);
  ASSERT_TRUE(writer->commit().isOk());
  Result<ArrayFile> file = ArrayFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(std::memcmp(file->arrays["a"].data, bytesOf<float>({4, 5}).data(), 8), 0);
  EXPECT_EQ(std::memcmp(file->arrays["b"].data, "xyz", 3), 0);
  EXPECT_FALSE(SafetensorsWriter::create(folder / "no/such/folder", {}));
}

TEST(Safetensors, WriterRefusesTheNameOfAnotherFormat) {
  TemporaryFolder folder;
  auto writer = SafetensorsWriter::create(folder / "w.pt", {});
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.status().category(), dtc::ErrorCategory::Usage);
  EXPECT_TRUE(writer.status().message().ends_with("not with .pt")) << writer.status().message();
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(folder / "w.pt").parent_path()));
  EXPECT_TRUE(SafetensorsWriter::create(folder / "step.pt.1", {}));
}

TEST(Npz, ReadsStoredMembers) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  std::string data = bytesOf<float>({1, 2, 3, 4, 5, 6});
  Result<ArrayFile> file = openBytes(
      zipOf({{"x.npy", npy(header, data)},
             {"n.npy", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n",
                           bytesOf<int64_t>({9}))}}, ""), "x.npz");
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_EQ(file->arrays["x"].shape, (Dims{2, 3}));
  EXPECT_EQ(std::memcmp(file->arrays["x"].data, data.data(), data.size()), 0);
  EXPECT_TRUE(file->arrays["n"].shape.empty());
}

TEST(Npz, RefusesWhatItCannotRead) {
  auto wrong = [](const std::string &header, const std::string &word, size_t bytes = 24) {
    expectRefused(zipOf({{"x.npy", npy(header, std::string(bytes, '\0'))}}, ""), word, "x.npz");
  };
  wrong("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", ">f4");
  wrong("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran");
  wrong("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", "truncated");
  wrong("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }", "malformed");
  wrong("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3), }",
        "malformed");
  wrong("{'descr': '<f4', 'fortran_order': False}", "malformed");
  wrong("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "unsupported");
  expectRefused(zipOf({{"x.npy", "not numpy"}}, ""), ".npy", "x.npz");
  std::string bytes = zipOf({{"x.npy", npy("{'descr': '<f4', 'fortran_order': False, "
                                           "'shape': (2, 3), }", std::string(24, 'x'))}}, "");
  for (size_t keep = 4; keep < bytes.size(); ++keep)
    EXPECT_FALSE(openBytes(bytes.substr(0, keep), "x.npz")) << keep;
}

TEST(ArrayFile, MissingFile) {
  TemporaryFolder folder;
  Result<ArrayFile> file = ArrayFile::open(folder / "none");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.status().category(), ErrorCategory::InputRefused);
  EXPECT_FALSE(ArrayFile::open("/tmp")); // a folder
}
