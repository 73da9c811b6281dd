#include "dtc/Package/Package.h"
#include "ZipReader.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Kernels/Passes.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Lower/Program.h"
#include "dtc/Target/CPU/CpuTarget.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

using namespace dtc;
using namespace dtc::package;
namespace fbs = dtc::rt::fbs;

namespace {

constexpr const char *kModule = R"mlir(
dist.mesh @mesh ["dp" = 2, "tp" = 2]
dtc.parameter trainable @w : tensor<4x2x8xf32> file tensor<4x16xf32> aliases ["tied"]
dtc.parameter buffer @b : tensor<8xf32> file tensor<8xf32>
exec.kernel @add extent 1 scratch 0 {
^bb0(%x: tensor<2x8xf32>, %b: tensor<8xf32>):
  %0 = dtc.broadcast %b [1] : tensor<8xf32> -> tensor<2x8xf32>
  %1 = arith.addf %x, %0 : tensor<2x8xf32>
  exec.yield %1 : tensor<2x8xf32>
}
func.func @forward(
    %w: tensor<4x1x8xf32> {dtc.role = #dtc.role<parameter, "w">, dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}, {}]>},
    %b: tensor<8xf32> {dtc.role = #dtc.role<buffer, "b">},
    %x: tensor<2x4xf32> {dtc.role = #dtc.role<input, "x">, dtc.limit = 9 : i64, dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>})
    -> (tensor<2x8xf32> {dtc.role = #dtc.role<output, "y">, dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>}) attributes {dtc.runs = #dtc.runs<microbatch, forward>, dist.local} {
  %0 = dtc.contract %x [0, 1], %w [1, 2, 3] -> [0, 2, 3] : tensor<2x4xf32>, tensor<4x1x8xf32> -> tensor<2x1x8xf32>
  %1 = dtc.reshape %0 : tensor<2x1x8xf32> -> tensor<2x8xf32>
  %2 = dist.all_reduce sum %1 on @mesh {"tp"} : tensor<2x8xf32>
  %3 = exec.launch @add(%2, %b) extent 1 in_place [0] : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}
)mlir";

class PackageTest : public testing::Test {
protected:
  PackageTest() : path((std::filesystem::path(testing::TempDir()) / "package-test.dtc").string()) {
    mlir::DialectRegistry registry;
    target::chooseTarget(registry, cpu::cpuTarget());
    context.appendDialectRegistry(registry);
    context.loadDialect<exec::ExecDialect, dist::DistDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
    values.assign(64, 1.0f);
    addWeight("w", {4, 16});
    addWeight("b", {8});
    inputs.path = path;
    inputs.weights = &weights;
    inputs.about = {{"target", "cpu"}, {"global_batch", 4}};
  }
  ~PackageTest() override { std::filesystem::remove(path); }

  void addWeight(const std::string &name, std::vector<int64_t> shape) {
    Weight &weight = weights[name];
    weight.dtype = "F32";
    weight.shape = std::move(shape);
    weight.size = 4;
    for (int64_t dim : weight.shape)
      weight.size *= dim;
    weight.data = reinterpret_cast<const std::byte *>(values.data());
  }

  /// Schedules the module and takes its program.
  bool schedule() {
    mlir::PassManager passes(&context);
    passes.addPass(kernels::createNormalizeContractions());
    passes.addPass(lower::createBuildSchedule());
    passes.addPass(lower::createPlanMemory());
    passes.addPass(lower::createVerifySchedule());
    if (mlir::failed(passes.run(*module)))
      return false;
    auto built = lower::buildProgram(*module);
    if (mlir::failed(built))
      return false;
    program = std::move(built->program);
    inputs.roles = {{program.get(), std::move(built->ranks), *module}};
    return true;
  }

  const fbs::BindingT &binding(fbs::BindingKind kind, const std::string &name) {
    for (const auto &binding : program->bindings)
      if (binding->kind == kind && binding->name == name)
        return *binding;
    throw std::runtime_error("no binding: " + name);
  }

  std::string errorOfWriting() {
    std::string message;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      message = diagnostic.str();
      return mlir::success();
    });
    EXPECT_TRUE(mlir::failed(writePackage(inputs)));
    EXPECT_FALSE(std::filesystem::exists(path));
    return message;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<fbs::ProgramT> program;
  WeightStore weights;
  std::vector<float> values;
  PackageInputs inputs;
  std::string path;
};

TEST_F(PackageTest, ProgramHasEveryInstruction) {
  ASSERT_TRUE(module && schedule());
  ASSERT_EQ(program->functions.size(), 1u);
  const auto &instructions = program->functions[0]->instructions;
  ASSERT_EQ(instructions.size(), 3u);
  const fbs::MatmulT *matmul = instructions[0]->op.AsMatmul();
  ASSERT_TRUE(matmul);
  EXPECT_EQ(matmul->a->shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(matmul->b->strides, (std::vector<int64_t>{8, 1}));
  const fbs::CollectiveT *reduce = instructions[1]->op.AsCollective();
  ASSERT_TRUE(reduce);
  ASSERT_EQ(program->groups.size(), 1u);
  EXPECT_EQ(reduce->group, 0u);
  EXPECT_EQ(program->groups[0]->lists.at(0)->ranks, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(program->groups[0]->lists.at(1)->ranks, (std::vector<int32_t>{2, 3}));
  // Both write over their operand, in the place of the output.
  const fbs::LaunchT *launch = instructions[2]->op.AsLaunch();
  ASSERT_TRUE(launch);
  uint64_t output = binding(fbs::BindingKind::Output, "y").ref->offset();
  EXPECT_EQ(matmul->c->ref->offset(), output);
  EXPECT_EQ(reduce->operands[0]->source->offset(), output);
  EXPECT_EQ(reduce->operands[0]->target->offset(), output);
  EXPECT_EQ(launch->args.back().offset(), output);
  EXPECT_EQ(program->bindings.size(), 4u);
  EXPECT_GE(program->arena_bytes, output + 64);
}

/// Values are those of the IR: a reshape is its operand, results take their operands' places.
TEST_F(PackageTest, ProgramTellsWhatInstructionsReadAndWrite) {
  ASSERT_TRUE(module && schedule());
  const fbs::FunctionT &function = *program->functions[0];
  ASSERT_EQ(function.values.size(), 6u); // w, b, x, the product, its sum, y
  const auto &instructions = function.instructions;
  EXPECT_EQ(instructions[0]->reads, (std::vector<uint32_t>{2, 0}));
  EXPECT_EQ(instructions[0]->writes, (std::vector<uint32_t>{3}));
  EXPECT_EQ(instructions[1]->reads, (std::vector<uint32_t>{3}));
  EXPECT_EQ(instructions[2]->reads, (std::vector<uint32_t>{4, 1}));
  EXPECT_EQ(instructions[2]->writes, (std::vector<uint32_t>{5}));
  ASSERT_EQ(function.arguments.size(), 3u);
  ASSERT_EQ(function.results.size(), 1u);
  EXPECT_EQ(function.results[0].value(), 5u);
  const fbs::BindingT &y = *program->bindings.at(function.results[0].binding());
  EXPECT_EQ(y.name, "y");
  EXPECT_EQ(function.values[5].ref().offset(), y.ref->offset());
  EXPECT_EQ(function.values[5].ref().scope(), y.ref->scope());
  EXPECT_EQ(function.values[5].bytes(), 64u);
}

TEST_F(PackageTest, BindingsSayWhereElementsLie) {
  ASSERT_TRUE(module && schedule());
  const fbs::BindingT &w = binding(fbs::BindingKind::Parameter, "w");
  EXPECT_EQ(w.shape, (std::vector<int64_t>{4, 2, 8}));
  EXPECT_EQ(w.local_shape, (std::vector<int64_t>{4, 1, 8}));
  ASSERT_EQ(w.placement->dims.size(), 3u);
  EXPECT_EQ(w.placement->dims[1]->axes, (std::vector<int32_t>{1}));
  EXPECT_TRUE(w.placement->dims[0]->axes.empty());
  const fbs::BindingT &x = binding(fbs::BindingKind::Input, "x");
  EXPECT_EQ(x.shape, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(x.placement->dims[0]->axes, (std::vector<int32_t>{0}));
}

/// A role's ranks need not be the first of the world, nor in order.
TEST_F(PackageTest, GroupsAreOfTheRolesRanks) {
  ASSERT_TRUE(module);
  (*module)->setAttr("exec.ranks", mlir::DenseI32ArrayAttr::get(&context, {9, 8, 4, 5}));
  ASSERT_TRUE(schedule());
  EXPECT_EQ(inputs.roles[0].ranks, (std::vector<int32_t>{9, 8, 4, 5}));
  EXPECT_EQ(program->groups[0]->lists.at(0)->ranks, (std::vector<int32_t>{9, 8}));
  EXPECT_EQ(program->groups[0]->lists.at(1)->ranks, (std::vector<int32_t>{4, 5}));
}

TEST_F(PackageTest, RoundTrip) {
  ASSERT_TRUE(module && schedule());
  std::string code = "not really code";
  inputs.code = [&]() -> llvm::Expected<std::vector<CodeFile>> {
    return std::vector<CodeFile>{{"kernels.so", std::as_bytes(std::span(code))}};
  };
  ASSERT_TRUE(mlir::succeeded(writePackage(inputs)));
  ReadZip zip = readZip(path);
  ASSERT_TRUE(zip.members.count("manifest.json"));
  const std::string &text = zip.members["manifest.json"].content;
  EXPECT_EQ(zip.comment, sha256({std::as_bytes(std::span(text))}));
  Json manifest = Json::parse(text);
  EXPECT_EQ(zip.members.size(), manifest["members"].size() + 1);
  for (const auto &[name, member] : manifest["members"].items()) {
    const std::string &content = zip.members[name].content;
    EXPECT_EQ(member["size"], content.size());
    EXPECT_EQ(member["sha256"], sha256({std::as_bytes(std::span(content))}));
  }
  EXPECT_EQ(manifest["world_size"], 4);
  EXPECT_EQ(manifest["collectives"].dump(),
            R"({"all_reduce":1,"all_gather":0,"reduce_scatter":0,"all_to_all":0,"permute":0,)"
            R"("recv":0,"send":0})");
  EXPECT_EQ(manifest["library_calls"], (Json{{"matmul", 1}}));
  EXPECT_EQ(manifest["arena_bytes"][0], program->arena_bytes);
  EXPECT_EQ(manifest["inputs"][0]["shape"].dump(), "[4,4]") << "the shape of the whole";
  EXPECT_EQ(manifest["inputs"][0]["limit"], 9);
  const Json &parameter = manifest["parameters"][0];
  EXPECT_EQ(parameter["aliases"].dump(), R"(["tied"])");
  EXPECT_EQ(parameter["view"].dump(), "[4,2,8]");
  EXPECT_EQ(parameter["shape"].dump(), "[4,16]");
  EXPECT_EQ(manifest["roles"].dump(), R"([{"program":"program/0.bin","ranks":[0,1,2,3]}])");
  const std::string &binary = zip.members[manifest["roles"][0]["program"]].content;
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(binary.data()), binary.size());
  EXPECT_TRUE(fbs::VerifyProgramBuffer(verifier));
}

TEST_F(PackageTest, EmbeddedWeightsAreSafetensors) {
  ASSERT_TRUE(module && schedule());
  values[5] = 42.0f;
  ASSERT_TRUE(mlir::succeeded(writePackage(inputs)));
  ReadZip zip = readZip(path);
  Json manifest = Json::parse(zip.members["manifest.json"].content);
  const std::string &member = zip.members["weights.safetensors"].content;
  uint64_t length = 0;
  std::memcpy(&length, member.data(), 8);
  Json header = Json::parse(member.substr(8, length));
  for (const char *name : {"w", "b"}) {
    const Json &location = manifest["weights"]["tensors"][name];
    uint64_t begin = header[name]["data_offsets"][0], offset = location["offset"];
    EXPECT_EQ(offset, 8 + length + begin);
    EXPECT_EQ(offset % 4, 0u);
    float sixth = 0;
    std::memcpy(&sixth, member.data() + offset + 20, 4);
    EXPECT_EQ(sixth, 42.0f);
  }
}

TEST_F(PackageTest, WeightsOutsideAreReferenced) {
  ASSERT_TRUE(module && schedule());
  std::string file = path + ".weights";
  std::FILE *stream = std::fopen(file.c_str(), "wb");
  ASSERT_TRUE(stream);
  std::fwrite(values.data(), 4, values.size(), stream);
  std::fclose(stream);
  weights["w"].file = file;
  ASSERT_TRUE(mlir::succeeded(writePackage(inputs)));
  Json manifest = Json::parse(readZip(path).members["manifest.json"].content);
  std::filesystem::remove(file);
  EXPECT_EQ(manifest["weights"]["files"][0]["path"], "package-test.dtc.weights");
  EXPECT_EQ(manifest["weights"]["files"][0]["size"], 256);
  EXPECT_EQ(manifest["weights"]["files"][0]["head_sha256"],
            sha256({std::as_bytes(std::span(values))}));
  EXPECT_EQ(manifest["weights"]["tensors"]["w"]["file"], 0);
  EXPECT_TRUE(manifest["weights"]["tensors"]["b"]["file"].is_null());
}

TEST_F(PackageTest, AParameterWithoutDataIsRefusedByName) {
  ASSERT_TRUE(module && schedule());
  weights["w"].data = nullptr;
  EXPECT_EQ(errorOfWriting(), "no data for parameter (give --weights or --init): w");
  inputs.init["w"] = {0.0, 0.02};
  EXPECT_TRUE(mlir::succeeded(writePackage(inputs)));
}

TEST_F(PackageTest, AWeightOfAnotherShapeIsRefused) {
  ASSERT_TRUE(module && schedule());
  addWeight("w", {16, 4});
  EXPECT_EQ(errorOfWriting(), "shape of weight w isn't the model's [4,16]: [16,4]");
}

TEST_F(PackageTest, KeysThatFollowFromTheProgramCantBeGiven) {
  ASSERT_TRUE(module && schedule());
  inputs.about["world_size"] = 7;
  EXPECT_EQ(errorOfWriting(), "manifest key given twice: world_size");
}

} // namespace
