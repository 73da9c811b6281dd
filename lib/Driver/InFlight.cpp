#include "InFlight.h"

#include "dtc-rt/Operations.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace dtc::driver {
namespace {

namespace fbs = rt::fbs;

struct Traffic {
  int64_t calls = 0;
  uint64_t bytes = 0;
};
using TrafficOfRole = std::map<std::string, Traffic>;

bool lists(const flatbuffers::Vector<uint32_t> *list, uint32_t token) {
  return list && std::find(list->begin(), list->end(), token) != list->end();
}

bool computes(const fbs::Instruction &instruction) {
  return instruction.op_type() == fbs::Op::Launch || instruction.op_type() == fbs::Op::Matmul ||
         instruction.op_type() == fbs::Op::Conv;
}

/// Nothing where no bytes move.
const char *kindOf(const fbs::Instruction &instruction) {
  const fbs::Collective *op = instruction.op_as_Collective();
  return op && op->kind() != fbs::CollectiveKind::Slice ? rt::nameOf(op->kind()) : nullptr;
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

/// Whether anything is computed between an instruction and the first that waits for it.
bool hasCompany(const fbs::Function &function, uint32_t index) {
  const fbs::Instruction &started = *function.instructions()->Get(index);
  if (started.queue() == 0 || !started.signals() || started.signals()->size() == 0)
    return false;
  uint32_t token = started.signals()->Get(0);
  for (uint32_t i = index + 1; i < function.instructions()->size(); ++i) {
    const fbs::Instruction &next = *function.instructions()->Get(i);
    if (lists(next.waits(), token))
      return false;
    if (next.queue() == 0 && computes(next))
      return true;
  }
  return false;
}

TrafficOfRole trafficOf(const fbs::Program &program) {
  TrafficOfRole result;
  for (const fbs::Call *call : *program.schedule()) {
    const fbs::Function &function = *program.functions()->Get(call->function());
    for (uint32_t i = 0; i < function.instructions()->size(); ++i) {
      const fbs::Instruction &instruction = *function.instructions()->Get(i);
      const char *kind = kindOf(instruction);
      if (!kind || !hasCompany(function, i))
        continue;
      Traffic &traffic = result[kind];
      ++traffic.calls;
      traffic.bytes += bytesOf(function, instruction);
    }
  }
  return result;
}

uint64_t totalBytes(const TrafficOfRole &role) {
  uint64_t bytes = 0;
  for (const auto &[kind, traffic] : role)
    bytes += traffic.bytes;
  return bytes;
}

} // namespace

nlohmann::ordered_json inFlight(const std::vector<rt::ProgramView> &programs) {
  TrafficOfRole most;
  for (const rt::ProgramView &program : programs)
    if (TrafficOfRole role = trafficOf(*program); totalBytes(role) > totalBytes(most))
      most = std::move(role);
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const auto &[kind, traffic] : most)
    result[kind] = {{"calls", traffic.calls}, {"bytes", traffic.bytes}};
  return result;
}

} // namespace dtc::driver
