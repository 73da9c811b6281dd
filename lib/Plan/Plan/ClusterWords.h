// What the words of cluster files stand for.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"

#include <algorithm>

namespace dtc::plan {

inline const std::vector<std::pair<DType, std::string>> rateNames = {
    {DType::F64, "fp64"}, {DType::F32, "fp32"}, {DType::BF16, "bf16"}, {DType::F16, "fp16"}};

inline const std::vector<std::pair<sharding::StepKind, std::string>> collectiveNames = {
    {sharding::StepKind::AllReduce, "all_reduce"},
    {sharding::StepKind::ReduceScatter, "reduce_scatter"},
    {sharding::StepKind::AllGather, "all_gather"},
    {sharding::StepKind::AllToAll, "all_to_all"},
    {sharding::StepKind::Permute, "permute"},
    {sharding::StepKind::Slice, "slice"}};

inline const std::vector<std::pair<Architecture, std::string>> architectureNames = {
    {Architecture::Volta, "volta"},   {Architecture::Ampere, "ampere"},
    {Architecture::Ada, "ada"},       {Architecture::Hopper, "hopper"},
    {Architecture::Blackwell, "blackwell"}};

template <typename Enum>
const std::string &nameOf(Enum value,
                          const std::vector<std::pair<Enum, std::string>> &names) {
  return std::find_if(names.begin(), names.end(), [&](auto &n) { return n.first == value; })
      ->second;
}

} // namespace dtc::plan
