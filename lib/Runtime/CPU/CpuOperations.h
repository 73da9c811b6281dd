// Makes the operations of a rank on processors, by kind.
#pragma once

#include "CpuQueue.h"

#include "dtc-rt/CPU/CodeObject.h"

namespace dtc::rt {

using MadeOperation = Result<std::unique_ptr<Operation>>;

MadeOperation makeLaunch(CpuQueue &queue, const LaunchSpec &spec, const CodeObject &code);
MadeOperation makeMatmul(CpuQueue &queue, const MatmulSpec &spec);
MadeOperation makeConv(CpuQueue &queue, const ConvSpec &spec);
MadeOperation makeCollective(CpuQueue &queue, const CollectiveSpec &spec, std::string name);
MadeOperation makeMessage(CpuQueue &queue, const MessageSpec &spec, std::string name);
MadeOperation makeCopy(CpuQueue &queue, const CopySpec &spec);
MadeOperation makeZero(CpuQueue &queue, const ZeroSpec &spec);
MadeOperation makeConstant(CpuQueue &queue, const ConstantSpec &spec);

template <typename T, typename... Args> MadeOperation made(Args &&...args) {
  return std::unique_ptr<Operation>(std::make_unique<T>(std::forward<Args>(args)...));
}

} // namespace dtc::rt
