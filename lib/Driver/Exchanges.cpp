#include "Exchanges.h"

#include "dtc-rt/Operations.h"

#include <algorithm>
#include <map>

namespace dtc::driver {
namespace {

namespace fbs = rt::fbs;
using nlohmann::ordered_json;

struct Kind {
  std::string name, axis;
  uint64_t bytes = 0;
  auto operator<=>(const Kind &) const = default;
};
struct Calls {
  int64_t all = 0, beside = 0;
};
using ExchangesOfRole = std::map<Kind, Calls>;

bool lists(const flatbuffers::Vector<uint32_t> *list, uint32_t token) {
  return list && std::find(list->begin(), list->end(), token) != list->end();
}

bool computes(const fbs::Instruction &instruction) {
  switch (instruction.op_type()) {
  case fbs::Op::Launch:
  case fbs::Op::Matmul:
  case fbs::Op::Conv:
  case fbs::Op::Attention:
    return instruction.queue() == 0;
  default:
    return false;
  }
}

/// The larger of what the call reads and what it writes.
uint64_t bytesOf(const fbs::Function &function, const fbs::Instruction &instruction) {
  auto total = [&](const flatbuffers::Vector<uint32_t> *values) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; values && i < values->size(); ++i)
      bytes += function.values()->Get(values->Get(i))->bytes();
    return bytes;
  };
  return std::max(total(instruction.reads()), total(instruction.writes()));
}

/// Finds the exchanges of a role's program.
class Finder {
public:
  Finder(const fbs::Program &program, const std::vector<int> &ranks)
      : program(program), ranks(ranks), mesh(rt::meshOf(program)) {}

  ExchangesOfRole find() const {
    ExchangesOfRole result;
    for (uint32_t call = 0; call < program.schedule()->size(); ++call) {
      const auto &instructions = *functionOf(call).instructions();
      for (uint32_t i = 0; i < instructions.size(); ++i) {
        Kind kind = kindOf(functionOf(call), *instructions.Get(i));
        if (kind.name.empty())
          continue;
        Calls &calls = result[std::move(kind)];
        ++calls.all;
        calls.beside += hasCompany(call, i);
      }
    }
    return result;
  }

private:
  const fbs::Function &functionOf(uint32_t call) const {
    return *program.functions()->Get(program.schedule()->Get(call)->function());
  }

  /// Without a name where no bytes move.
  Kind kindOf(const fbs::Function &function, const fbs::Instruction &instruction) const {
    if (const fbs::Collective *op = instruction.op_as_Collective())
      return op->kind() == fbs::CollectiveKind::Slice
                 ? Kind()
                 : Kind{rt::nameOf(op->kind()), axisOf(op->group()),
                        bytesOf(function, instruction)};
    if (const fbs::Message *op = instruction.op_as_Message()) {
      Kind kind{op->kind() == fbs::MessageKind::Send ? "send" : "recv", "pp"};
      for (const fbs::MessageBuffer *buffer : *op->buffers())
        kind.bytes += buffer->bytes();
      return kind;
    }
    const fbs::Copy *op = instruction.op_as_Copy();
    bool isBetweenMemories = op && op->source()->space() != op->target()->space();
    return isBetweenMemories ? Kind{"copy", "host", op->bytes()} : Kind();
  }

  /// By the first list with ranks of this role.
  std::string axisOf(uint32_t group) const {
    for (const fbs::RankList *list : *program.groups()->Get(group)->lists()) {
      std::vector<int64_t> positions;
      for (int rank : *list->ranks())
        if (auto own = std::find(ranks.begin(), ranks.end(), rank); own != ranks.end())
          positions.push_back(own - ranks.begin());
      if (!positions.empty())
        return axisOf(positions, positions.size() < list->ranks()->size());
    }
    return "";
  }

  std::string axisOf(const std::vector<int64_t> &positions, bool isOfStages) const {
    std::vector<std::string> degrees;
    for (uint32_t axis = 0; axis < program.mesh_axes()->size(); ++axis) {
      const std::string degree = program.mesh_axes()->Get(axis)->degree()->str();
      auto along = [&](int64_t rank) { return mesh.position(rank, {static_cast<int32_t>(axis)}); };
      bool differs = std::any_of(positions.begin(), positions.end(), [&](int64_t rank) {
        return along(rank) != along(positions.front());
      });
      if (differs && std::find(degrees.begin(), degrees.end(), degree) == degrees.end())
        degrees.push_back(degree);
    }
    if (isOfStages)
      degrees.push_back("pp");
    std::string text;
    for (const std::string &degree : degrees)
      text += (text.empty() ? "" : ",") + degree;
    return text;
  }

  /// Whether anything is computed between an instruction and the first that waits for it, which may
  /// be of a later call.
  bool hasCompany(uint32_t call, uint32_t index) const {
    const fbs::Instruction &started = *functionOf(call).instructions()->Get(index);
    if (started.queue() == 0 || !started.signals() || started.signals()->size() == 0)
      return false;
    const uint32_t token = started.signals()->Get(0);
    const fbs::Scope scope = fbs::Scope(program.tokens()->Get(token));
    const uint32_t number = rt::numberOf(*program.schedule()->Get(call), scope);
    for (uint32_t later = call; later < program.schedule()->size(); ++later) {
      const auto &instructions = *functionOf(later).instructions();
      const bool isSame = rt::numberOf(*program.schedule()->Get(later), scope) == number;
      for (uint32_t i = later == call ? index + 1 : 0; i < instructions.size(); ++i) {
        if (isSame && lists(instructions.Get(i)->waits(), token))
          return false;
        if (computes(*instructions.Get(i)))
          return true;
      }
    }
    return false;
  }

  const fbs::Program &program;
  const std::vector<int> &ranks;
  rt::RankMesh mesh;
};

uint64_t bytesBeside(const ExchangesOfRole &role) {
  uint64_t bytes = 0;
  for (const auto &[kind, calls] : role)
    bytes += kind.bytes * calls.beside;
  return bytes;
}

} // namespace

Exchanges exchangesOf(const std::vector<rt::ProgramView> &programs, const rt::Manifest &manifest) {
  Exchanges result{ordered_json::array(), ordered_json::object()};
  ExchangesOfRole busiest;
  for (size_t role = 0; role < programs.size(); ++role) {
    ExchangesOfRole own = Finder(*programs[role], manifest.roles[role].ranks).find();
    for (const auto &[kind, calls] : own)
      result.all.push_back({{"role", role},
                            {"kind", kind.name},
                            {"axis", kind.axis},
                            {"calls", calls.all},
                            {"bytes", kind.bytes},
                            {"beside_computation", calls.beside}});
    if (bytesBeside(own) > bytesBeside(busiest))
      busiest = std::move(own);
  }
  std::map<std::string, std::pair<int64_t, uint64_t>> beside;
  for (const auto &[kind, calls] : busiest) {
    beside[kind.name].first += calls.beside;
    beside[kind.name].second += kind.bytes * calls.beside;
  }
  for (const auto &[name, total] : beside)
    if (total.first > 0)
      result.besideComputation[name] = {{"calls", total.first}, {"bytes", total.second}};
  return result;
}

} // namespace dtc::driver
