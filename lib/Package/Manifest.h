// The parts of manifest.json that follow from the module and the programs.
#pragma once

#include "dtc/Package/Package.h"

namespace dtc::package {

/// "parameters", "inputs", "outputs", from the arguments and results of what runs for each
/// microbatch, in all roles' modules. What several of them have is listed once.
llvm::Expected<Json> describeModules(const PackageInputs &inputs);

/// Calls per step by kind, as {"all_reduce": 3, ...}, of a rank of the role that makes most.
Json countCollectives(llvm::ArrayRef<Role> roles);
Json countLibraryCalls(llvm::ArrayRef<Role> roles);

/// Of the products among them, by what they do besides multiplying.
Json countEpilogues(llvm::ArrayRef<Role> roles);

/// The "weights" entry of the manifest, and the embedded member if there is one.
struct WeightSection {
  Json index;
  std::string header; ///< of the safetensors member
  Pieces data;        ///< after the header
  bool embedded() const { return !header.empty(); }
};

/// Collects the data of `parameters` (the manifest's list). Fails for one that
/// has neither data nor an "init".
/// How the manifest names a file that isn't part of the artifact: by its path from there.
std::string pathFrom(const std::string &artifact, const std::string &path);

llvm::Expected<WeightSection> collectWeights(const Json &parameters, const PackageInputs &inputs);

} // namespace dtc::package
