#include "dtc-rt/Executor.h"
#include "Instructions.h"

namespace dtc::rt {
namespace {

const char *nameOf(const fbs::Instruction &instruction) {
  return instruction.name() ? instruction.name()->c_str()
                            : fbs::EnumNameOp(instruction.op_type());
}

MadeInstruction make(const RankContext &context, const fbs::Instruction &instruction) {
  switch (instruction.op_type()) {
  case fbs::Op::Launch:
    return makeLaunch(context, *instruction.op_as_Launch());
  case fbs::Op::Matmul:
    return makeMatmul(context, *instruction.op_as_Matmul());
  case fbs::Op::Conv:
    return makeConv(context, *instruction.op_as_Conv());
  case fbs::Op::Collective:
    return makeCollective(context, *instruction.op_as_Collective(), nameOf(instruction));
  case fbs::Op::AxisIndex:
    return makeAxisIndex(context, *instruction.op_as_AxisIndex());
  case fbs::Op::Zero:
    return makeZero(context, *instruction.op_as_Zero());
  case fbs::Op::Copy:
    return makeCopy(context, *instruction.op_as_Copy());
  default:
    return refused("unknown operation");
  }
}

} // namespace

Result<Executor> Executor::create(const RankContext &context) {
  Executor executor(context);
  for (const fbs::Function *function : *context.program->functions()) {
    auto &list = executor.functions.emplace_back();
    for (const fbs::Instruction *instruction : *function->instructions()) {
      MadeInstruction made = make(context, *instruction);
      if (!made)
        return std::move(made.status()).in(function->name()->str() + ": " + nameOf(*instruction));
      list.push_back(std::move(*made));
    }
  }
  return executor;
}

Status Executor::runStep() {
  for (const fbs::Call *call : *context.program->schedule()) {
    if (Status status = context.communicator.check(); !status.isOk())
      return status;
    for (const auto &instruction : functions[call->function()])
      if (Status status = instruction->run(*call); !status.isOk())
        return status;
  }
  return Status::ok();
}

} // namespace dtc::rt
