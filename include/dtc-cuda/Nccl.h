// The part of NCCL that dtc uses, declared as Driver.h declares the driver's.
#pragma once

#include "dtc-cuda/Driver.h"

#include <climits>

namespace dtc::cuda {

using ncclComm_t = struct ncclComm *;

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t : unsigned {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclRedOp_t : unsigned { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

enum ncclDataType_t : unsigned {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

/// The first fields of NCCL's configuration, as of version 2.18. Later versions have more, and
/// take from `size` and `version` which ones a caller knows.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN; ///< INT_MIN: NCCL's default, likewise below
  int cgaClusterSize = INT_MIN;
  int minCTAs = INT_MIN;
  int maxCTAs = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN;
};

} // namespace dtc::cuda
