// Ops of attention by a part of its keys at a time.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "dtc/Dialect/Graph/AttentionPartOps.h.inc"
