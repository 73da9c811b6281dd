#include "dtc-rt/Executor.h"
#include "Instructions.h"

#include <algorithm>

namespace dtc::rt {
namespace {

const char *nameOf(const fbs::Instruction &instruction) {
  return instruction.name() ? instruction.name()->c_str()
                            : fbs::EnumNameOp(instruction.op_type());
}

/// The ranks of a group that the rank is one of, in order of their positions.
std::vector<int> ranksOf(const fbs::Group &group, int rank) {
  for (const fbs::RankList *list : *group.lists())
    if (std::find(list->ranks()->begin(), list->ranks()->end(), rank) != list->ranks()->end())
      return {list->ranks()->begin(), list->ranks()->end()};
  return {rank}; // not reached: every rank of the role is in one
}

MadeInstruction make(const RankContext &context, const fbs::Instruction &instruction) {
  if (instruction.queue() != 0)
    return refused("this runtime has one queue alone, not: " +
                   context.program->queues()->Get(instruction.queue())->name()->str());
  switch (instruction.op_type()) {
  case fbs::Op::Launch:
    return makeLaunch(context, *instruction.op_as_Launch());
  case fbs::Op::Matmul:
    return makeMatmul(context, *instruction.op_as_Matmul());
  case fbs::Op::Conv:
    return makeConv(context, *instruction.op_as_Conv());
  case fbs::Op::Collective:
    return makeCollective(context, *instruction.op_as_Collective(), nameOf(instruction));
  case fbs::Op::GroupPosition:
    return makeGroupPosition(context, *instruction.op_as_GroupPosition());
  case fbs::Op::Zero:
    return makeZero(context, *instruction.op_as_Zero());
  case fbs::Op::Copy:
    return makeCopy(context, *instruction.op_as_Copy());
  case fbs::Op::Message:
    return refused("this runtime cannot send and receive");
  default:
    return refused("unknown operation");
  }
}

} // namespace

Result<Executor> Executor::create(const RankContext &context) {
  Executor executor(context);
  Communicator &communicator = context.communicator;
  for (const fbs::Group *group : *context.program->groups())
    executor.context.groups.push_back(
        communicator.group(ranksOf(*group, communicator.rank())));
  for (const fbs::Function *function : *context.program->functions()) {
    auto &list = executor.functions.emplace_back();
    for (const fbs::Instruction *instruction : *function->instructions()) {
      MadeInstruction made = make(executor.context, *instruction);
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
