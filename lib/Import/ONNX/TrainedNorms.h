// Batch norms that normalize by the statistics of the batch, and change their running ones.
#pragma once

#include "Model.h"
#include "dtc/Import/ImportedModel.h"

#include "llvm/ADT/StringMap.h"

namespace dtc::import {

/// Whether the file says so: in training mode, or with further outputs.
bool isTrainingNorm(const onnx::NodeProto &node);

/// Notes in `model` which norms train. Refuses those whose running statistics aren't tensors of
/// their own, or are read as values: PyTorch updates them by another formula than ONNX.
llvm::LogicalResult findTrainedNorms(Model &model, BatchNormMode mode);

/// The names of the running statistics that the live ones of these norms change.
std::vector<std::string> changedBuffers(const Model &model, const llvm::StringMap<bool> &live);

} // namespace dtc::import
