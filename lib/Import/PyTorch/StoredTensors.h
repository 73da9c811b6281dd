// Tensors where they lie in a PyTorch archive: members that hold raw bytes.
#pragma once

#include "Schema.h"

#include "dtc-io/ZipFile.h"

#include "mlir/IR/Diagnostics.h"

namespace dtc::import {

/// Reads the tensors of an open archive. Errors are diagnostics at `file`.
class StoredTensors {
public:
  /// `root`: the folder that holds everything.
  StoredTensors(mlir::Location file, const io::ZipFile &zip, std::string root)
      : file(file), zip(zip), root(std::move(root)),
        owner(std::make_shared<io::MappedFile>(zip.file())) {}

  /// Where tensors lie: the members that the payloads name are in the folder.
  struct Source {
    const Payloads &payloads;
    std::string folder;
  };
  /// Reads all tensors of a program into its graph, each from the source that `sourceOf` names.
  llvm::LogicalResult readAll(Program &program,
                              llvm::function_ref<Source(const NamedTensor &)> sourceOf) const;
  /// Has groups of names be one tensor each, as `ties` says of tensors without elements.
  llvm::LogicalResult tieAs(const Ties &ties, AtenGraph &graph) const;

private:
  /// Refuses tensors that share a part of their elements. Those that share all are one.
  llvm::LogicalResult tie(const AtenGraph &graph) const;
  llvm::FailureOr<AtenTensor> read(const NamedTensor &named, const Payloads &payloads,
                                   const std::string &folder, bool changes) const;
  mlir::InFlightDiagnostic refuse() const { return emitError(file); }
  llvm::LogicalResult locate(const Payload &payload, const std::string &folder,
                             FileTensor &tensor) const;

  mlir::Location file;
  const io::ZipFile &zip;
  std::string root;
  std::shared_ptr<io::MappedFile> owner; ///< of the bytes of all tensors
};

} // namespace dtc::import
