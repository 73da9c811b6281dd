#include "TestArtifact.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Program/RankMesh.h"
#include "dtc-rt/Program/Sha256.h"

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <zlib.h>

namespace dtc::rt::test {

TemporaryFolder::TemporaryFolder() {
  const std::string letters(6, 'X'); // mkdtemp puts others in their place
  std::string pattern = (std::filesystem::temp_directory_path() / ("dtc-test-" + letters)).string();
  path = ::mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

namespace {

void put(std::string &text, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    text += i < 8 ? static_cast<char>(value >> (8 * i)) : 0;
}

/// The fields that local and central headers share.
void putEntry(std::string &text, const std::string &name, const std::string &data) {
  put(text, 0, 2); // flags
  put(text, 0, 2); // stored
  put(text, 0x00210000, 4);
  put(text, crc32(0, reinterpret_cast<const Bytef *>(data.data()), data.size()), 4);
  put(text, data.size(), 4);
  put(text, data.size(), 4);
  put(text, name.size(), 2);
}

} // namespace

std::string zipOf(const std::vector<std::pair<std::string, std::string>> &members,
                  const std::string &comment) {
  std::string text, directory;
  for (const auto &[name, data] : members) {
    uint64_t offset = text.size();
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    put(directory, 20, 2);
    putEntry(directory, name, data);
    put(directory, 0, 2 + 2 + 2 + 2 + 4);
    put(directory, offset, 4);
    directory += name;
    put(text, 0x04034b50, 4);
    put(text, 20, 2);
    putEntry(text, name, data);
    uint64_t end = text.size() + 2 + name.size() + 4;
    uint64_t padding = (kMemberAlignment - end % kMemberAlignment) % kMemberAlignment;
    put(text, 4 + padding, 2);
    text += name;
    put(text, 0xD935, 2);
    put(text, padding, 2);
    text.append(padding, '\0');
    text += data;
  }
  uint64_t start = text.size();
  text += directory;
  put(text, 0x06054b50, 4);
  put(text, 0, 4);
  put(text, members.size(), 2);
  put(text, members.size(), 2);
  put(text, directory.size(), 4);
  put(text, start, 4);
  put(text, comment.size(), 2);
  return text + comment;
}

std::string artifactOf(Json manifest, const std::map<std::string, std::string> &members) {
  std::vector<std::pair<std::string, std::string>> list(members.begin(), members.end());
  for (const auto &[name, data] : list)
    manifest["members"][name] = {{"size", data.size()}, {"sha256", sha256(data)}};
  std::string text = manifest.dump();
  list.emplace_back(kManifestMember, text);
  return zipOf(list, sha256(text));
}

Json emptyManifest(const std::vector<std::pair<std::string, int64_t>> &axes) {
  int64_t ranks = 1;
  Json mesh = Json::array();
  for (auto [name, size] : axes) {
    mesh.push_back({{"name", name}, {"degree", name}, {"size", size}});
    ranks *= size;
  }
  Json manifest = {{"format", kFormatVersion}, {"dtc", "0.1.0"}, {"target", "cpu"},
                   {"world_size", ranks}, {"threads_per_rank", 1}};
  manifest["processor"] = {{"arch", "x86-64"}, {"features", Json::array()}};
  manifest["mesh"] = mesh;
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  manifest["roles"] = {{{"program", "program/0.bin"}, {"ranks", all}}};
  manifest["code"] = Json::array();
  manifest["global_batch"] = 1;
  manifest["sequence"] = nullptr;
  manifest["vocabulary"] = nullptr;
  manifest["loss"] = "mse";
  manifest["ignore_index"] = -100;
  for (const char *key : {"parameters", "inputs", "outputs"})
    manifest[key] = Json::array();
  manifest["weights"] = {{"files", Json::array()}, {"tensors", Json::object()}};
  manifest["learning_rate"] = {{"lr", 0.1}, {"schedule", "constant"}, {"warmup_steps", 0},
                               {"total_steps", nullptr}, {"min_lr", 0.0}};
  manifest["predicted"] = {{"step_time_s", nullptr}};
  manifest["members"] = Json::object();
  return manifest;
}

Manifest parsed(const Json &manifest) {
  std::string text = manifest.dump();
  Result<Manifest> result = Manifest::parse(text);
  if (!result)
    throw std::runtime_error(result.status().message());
  return *result;
}

std::string safetensorsOf(const Json &header, const std::string &data) {
  std::string text = header.dump(), bytes;
  put(bytes, text.size(), 8);
  return bytes + text + data;
}

fbs::Ref stepRef(uint64_t offset) { return scopeRef(fbs::Scope::Step, offset, 0); }

std::unique_ptr<fbs::TensorT> tensorAt(uint64_t offset, Dims shape, Dims strides,
                                       fbs::DType dtype) {
  auto tensor = std::make_unique<fbs::TensorT>();
  tensor->ref = std::make_unique<fbs::Ref>(stepRef(offset));
  tensor->dtype = dtype;
  tensor->shape = shape;
  if (strides.empty()) {
    strides.assign(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;)
      strides[i - 1] = strides[i] * shape[i];
  }
  tensor->strides = strides;
  return tensor;
}

std::unique_ptr<fbs::BindingT> bindingOf(fbs::BindingKind kind, const std::string &name,
                                         uint64_t offset, Dims shape, Dims local,
                                         const std::vector<std::vector<int>> &axes) {
  auto binding = std::make_unique<fbs::BindingT>();
  binding->kind = kind;
  binding->name = name;
  binding->ref = std::make_unique<fbs::Ref>(stepRef(offset));
  binding->placement = std::make_unique<fbs::PlacementT>();
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    binding->placement->dims.push_back(std::make_unique<fbs::AxisListT>());
    if (dim < axes.size())
      binding->placement->dims.back()->axes = axes[dim];
  }
  binding->shape = std::move(shape);
  binding->local_shape = std::move(local);
  return binding;
}

std::unique_ptr<fbs::GroupT> groupOf(const std::vector<std::vector<int>> &lists) {
  auto group = std::make_unique<fbs::GroupT>();
  for (const std::vector<int> &ranks : lists) {
    group->lists.push_back(std::make_unique<fbs::RankListT>());
    group->lists.back()->ranks = ranks;
  }
  return group;
}

fbs::ProgramT emptyProgram(const Json &manifest, uint64_t arenaBytes) {
  fbs::ProgramT program;
  for (const Json &axis : manifest["mesh"]) {
    auto entry = std::make_unique<fbs::MeshAxisT>();
    entry->name = axis["name"];
    entry->degree = axis["degree"];
    entry->size = axis["size"];
    program.mesh_axes.push_back(std::move(entry));
  }
  Manifest known = parsed(manifest);
  const std::vector<int> &ranks = known.roles[0].ranks;
  std::vector<RankMesh::Axis> axes;
  for (const Json &axis : manifest["mesh"])
    axes.push_back({axis["name"], axis["size"]});
  RankMesh mesh(axes);
  for (int32_t axis = 0; axis < static_cast<int32_t>(axes.size()); ++axis) {
    std::vector<std::vector<int>> lists;
    for (size_t at = 0; at < ranks.size(); ++at)
      if (mesh.position(static_cast<int64_t>(at), {axis}) == 0)
        lists.push_back(mesh.group(static_cast<int64_t>(at), {axis}));
    program.groups.push_back(groupOf(lists));
  }
  program.queues.push_back(std::make_unique<fbs::QueueT>());
  program.queues[0]->name = "compute";
  program.arena_bytes = arenaBytes;
  program.threads = manifest["threads_per_rank"];
  program.functions.push_back(std::make_unique<fbs::FunctionT>());
  program.functions[0]->name = "step";
  program.schedule.push_back(fbs::Call(0, 0, 0, 0, 0));
  return program;
}

std::string serialized(const fbs::ProgramT &program) {
  flatbuffers::FlatBufferBuilder builder;
  fbs::FinishProgramBuffer(builder, fbs::CreateProgram(builder, &program));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

} // namespace dtc::rt::test
